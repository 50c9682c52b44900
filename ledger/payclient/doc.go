// Package payclient sends payments to Khata's HTTP payment API, and never forgets a key.
//
//	c, err := payclient.New(payclient.Config{URL: "https://pay.example", Dir: dir, User: "shimul", Token: token})
//	r, err := c.Pay(ctx, payclient.Transfer{From: "wallet:shimul", To: "wallet:tithi", Amount: "500.00", Currency: "BDT"},
//		payclient.Reference("order-77"))
//
// A payment gets its Idempotency-Key once, when it is begun, and is written to disk with its exact bytes before the first of them is sent.
// Every try sends these bytes under this key: after a timeout, after a crash, a day later. So the money moves once, or not at all, whatever
// the network, the process and the disk do.
//
//	PENDING ──► IN_FLIGHT ──► DONE       the money has moved
//	                │    └──► REJECTED   it has not, and will not under this key
//	                ▼
//	             UNKNOWN ───► DONE, REJECTED   by a look-up, or by Pay within the 24 hours
//
// PENDING is on disk, and was never sent. IN_FLIGHT may have been sent, and is sent again until there is an answer that settles it: within
// Pay, and after a restart by Resume. A server that asks for another token (401, 403) does not settle it: the payment is kept, Pay says so,
// and goes on when it is called again. DONE and REJECTED never change. UNKNOWN is what the server could not be brought to settle, within 24
// hours from the first sending or because it refuses the request without saying what became of an earlier try: a person has to look.
//
// The package never makes a second key for a payment by itself, and never says "failed" of what may have happened. It must stay so: it is
// the guard that a restart of the app would otherwise take away.
//
// # The store
//
// The store is a folder of a file for each payment, and can be shared by processes: one of them sends a payment at a time, and the others
// wait for it. On Linux, macOS and the BSDs that is a lock (flock) which ends with its process. On other systems there is no such lock, and no
// sync of a folder: let one process at a time use a folder there, and know that a power cut may take the newest payment's record. The folder must be on a disk whose fsync is true, and not be copied: a copy would send
// what the original has begun, which is harmless, and would forget what the original begins, which is not.
//
// docs/client-protocol.md tells the same for other languages, with test vectors.
package payclient

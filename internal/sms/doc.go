// Package sms tells people by text message what their accounts did: "৳500.00 received from Shimul", once for each event.
//
// It consumes the topic of accounts through an inbox (ledger/inbox). A message cannot be in a transaction of a database, so two rooms share
// the work, and a table stands between them:
//
//	khata.accounts ──► handler ──► message, in the inbox's transaction ──► sender ──► gateway, with the event's id as key
//	                                        queued ─► sending ─► sent
//	                                           ▲         │  └──► failed, expired
//	                                           └─────────┘ again later
//
// The handler writes at most one message for an event, whatever is delivered how often. The sender calls the gateway at least once for each
// message, never from two places at the same time, and always with the same key and the same content. Only where a process dies between the
// gateway's answer and its own mark is the gateway called again for a message that it has; one that honours keys sends it once all the same.
//
// Who is to be told stands in the accounts' metadata. The directory of recipients is a copy of it: read from the books once, at the first start,
// since a topic with a retention has no beginning, and kept up to date by events from there on.
//
// The tables have phone numbers and texts. The log never has either.
package sms

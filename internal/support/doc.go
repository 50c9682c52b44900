// Package support is where people help customers: they find a transfer, read its story, and give money back; and where it is written down who did what.
// It owns the tables support_… and audit_event; the books it reads, and posts to, through package journal.
//
// # The audit
//
// Every write by a person is in the audit, in the write's own transaction, and every sensitive read is there before its answer is given: see Audit. If
// it cannot be written, nothing happens. What a service posts is its own audit, since a transfer names its caller. Nothing in it is ever changed.
//
// # Refunds
//
// A person asks for a refund by a form (Desk.Form, Desk.Request). Its key is minted when the form is made, and the refund's id in the books follows from
// it: a form that is sent ten times, by two tabs, is one refund. What has been refunded before stands in the form, too, and the books look again when
// they post: so two forms that were made at the same time do not both go through.
//
// Above a limit, or above a total of 24 hours, another person has to approve (Desk.Decide): exactly what is there, by its hash, and in time. Where no
// limit is set, every refund needs another person. The database holds all of this by triggers: that the maker is not the checker, that the
// content is the one that was approved, that the totals are kept, and that nothing is posted without. What became of a request, and the audit of it, is
// in the transaction of the transfer itself: there is no refund without them.
//
// A request goes from waiting to ready to posted, or ends as refused (by the books), rejected, withdrawn or expired. One that is ready is posted by the
// call that made it so, by the same call again, or by Desk.Sweep.
//
// Of payments that may be one (Suspects), the last that stands does not go back as a duplicate: not by a request while all the others have gone back or are asked
// back, and not by an approval or a posting once they have gone back or are approved. Of two that wait, the one that is approved first is posted. Any other
// reason will do, and whoever asks or approves is warned. A payment is known to be one of several about a second after it was posted.
//
// # Finding and telling
//
// Desk.Find finds by ids, numbers and keys in indexes, and by everything else back in time over a bounded number of rows, and says how far it has
// looked. Whatever takes the id of a transfer takes the number of a payment, and what text messages call a refund, too. Desk.Story puts what the books,
// this package and others know of a transfer on one timeline, and Desk.Review lists what waits for people. What others know they tell through Teller and Pile, which are declared here and made where everybody is known: a room that a deployment does not
// have is not asked, and one that cannot be asked is named.
package support

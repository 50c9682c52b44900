// Package suspect finds transfers that may be the same payment, made twice: under different ids, so that no guard on the road of a payment could have
// stopped the second one, they move the same amounts between the same accounts within a day. It owns the tables suspect_…; the books it reads through
// package journal. It moves no money: a person looks at what it has found, and refunds one, or says that all is well.
//
// # Following the journal
//
// Posting pays nothing for it. A Detector follows the journal behind it, as the relay does: it reads the transfers after a cursor, up to the horizon,
// and so each exactly once whatever is posted meanwhile. Each payment has a fingerprint, a hash of what it moves, and a narrow table has those of the
// last day. What meets there is read again and compared as a whole, so two that have only their hashes in common are no suspects.
// What is found is written by the transaction that moves the cursor, which no other can have moved; so any number of servers may follow at once, and be
// killed anywhere.
//
// # Groups
//
// A transfer that has equals within a day before it, in the order of the journal, joins the one of them that it is most likely a repetition of: in the
// latest group of that one, if this then spans no more than a day and maxMembers transfers; otherwise in a new group of the two. So a robot that pays
// the same every minute makes groups of a bounded size, and each transfer is in at most a few.
//
// What a group is worth follows from its members alone (see assess): of each two that still stand, how far apart they were posted, and what they say
// of themselves. A group is open until all of its members but one have gone back, or a person has dismissed it, which is about the members that it had:
// whatever else joins makes it a suspect again.
package suspect

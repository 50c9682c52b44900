// Package inbox gives an event from Kafka its effect in PostgreSQL once, however often it is delivered.
//
// Kafka delivers at least once: a producer that did not hear the answer sends again, a consumer that died before it committed its offset is
// given the same records again, and an operator turns a group back to yesterday. An Inbox absorbs that. It puts the id of an event and
// whatever the handler does with it into one transaction of PostgreSQL, and commits the offset afterwards:
//
//	in, err := inbox.New(ctx, inbox.Config{
//		Consumer: "wallet",
//		Pool:     pool,
//		Kafka:    []kgo.Opt{kgo.SeedBrokers("localhost:9092")},
//		Topics:   []string{"khata.transfers"},
//		Handle: func(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
//			_, err := tx.Exec(ctx, "INSERT INTO …")
//			return err
//		},
//	})
//	…
//	err = in.Run(ctx)
//
// Run as many of them under one name as you like, in as many processes: they share the partitions of the topics, and the inbox.
//
// Events are CloudEvents 1.0 in Kafka's binary mode: the attributes are headers (ce_id, ce_source, ce_type, ce_time, ce_specversion), the data
// is the record's value. The time is when the event was recorded, not when it was sent. What the data means is the handler's business.
//
// # What it guarantees, and where that ends
//
// What the handler does through the transaction that it is given happens once for each event id and consumer, and in the order of the
// partition. What it does elsewhere (another database, a mail, an SMS) may happen again: let it store in the transaction what is to be sent,
// and let a sender send that, with the event's id as the key for those who can tell a repetition.
//
// An inbox remembers as long as its Window. It refuses to run with one that is shorter than what its topics keep, and it quarantines an event
// that is older: whether it had its effect cannot be told any more, and a person decides. Nothing is dropped without a row that says so.
//
// An event whose handler fails again and again becomes a dead letter, a row too. Letters lists them; RequestReplay has the running Inbox
// handle them, once; Discard lays them aside. That the database is away is no failure of the handler, and is waited out.
package inbox

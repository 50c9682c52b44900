package sms

import (
	"context"
	"fmt"
	"time"
)

// Gateway takes messages and has them sent. What it cannot say for sure is an error: the message may have been taken.
//
// What Khata counts on: a key stands for one message. Whoever sends it again, with the same number and text, is told the same reference, and nothing
// more is sent. A gateway that does not know keys can be used; people then get a message twice where a process died in the wrong instant.
type Gateway interface {
	// Send hands a message over and returns the gateway's reference for it. A *RefusedError is final; a *LaterError says when to try again;
	// after any other error it is tried again, too.
	Send(ctx context.Context, m Message) (reference string, err error)
}

// Message is what is sent.
type Message struct {
	// Key names it at the gateway: the event's id. It is the same at every try.
	Key string
	// Phone is a number in the form of E.164, such as +8801711000001.
	Phone, Text string
}

// RefusedError is a gateway's final no: to this number, or this text, it never sends.
type RefusedError struct {
	// Status is the HTTP status, and Reason what the gateway says. It may quote the number.
	Status int
	Reason string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the gateway refuses it (%d): %s", e.Status, e.Reason)
}

// LaterError is of a gateway that asks for patience.
type LaterError struct {
	Status int
	// After is for how long; 0 is not said.
	After time.Duration
}

func (e *LaterError) Error() string {
	if e.After > 0 {
		return fmt.Sprintf("the gateway answered %d, and asks to wait for %s", e.Status, e.After)
	}
	return fmt.Sprintf("the gateway answered %d", e.Status)
}

package inbox

import "github.com/twmb/franz-go/pkg/kgo"

// Read makes an event of a record, and says what is wrong with it.
func Read(r *kgo.Record) (Event, error) {
	d := read(r)
	return d.Event, d.malformed
}

// IsTransient reports whether a handler's error is waited out.
var IsTransient = isTransient

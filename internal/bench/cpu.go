package bench

import "time"

// CPU is the processor time that was used in a timed window, in seconds. Of a server that somebody else started, only the
// client's is known, and outside of Linux nothing is.
type CPU struct {
	Client   *float64 `json:"client_seconds,omitempty"`
	Server   *float64 `json:"server_seconds,omitempty"`
	Postgres *float64 `json:"postgres_seconds,omitempty"`
}

// processes are those whose time can be told apart. A pid of 0 is not known.
type processes struct{ server, postmaster int }

// reading is what each has used since it began; negative is not known.
type reading struct{ client, server, postgres time.Duration }

const unknown time.Duration = -1

func (p processes) read() reading {
	r := reading{client: ownTime(), server: unknown, postgres: unknown}
	if p.server != 0 {
		r.server = processTime(p.server)
	}
	if p.postmaster != 0 {
		r.postgres = familyTime(p.postmaster)
	}
	return r
}

// since gives what was used between two readings.
func (r reading) since(earlier reading) CPU {
	used := func(from, to time.Duration) *float64 {
		if from < 0 || to < 0 {
			return nil
		}
		seconds := (to - from).Seconds()
		return &seconds
	}
	return CPU{
		Client: used(earlier.client, r.client), Server: used(earlier.server, r.server), Postgres: used(earlier.postgres, r.postgres),
	}
}

// total is what is known of all of them.
func (c CPU) total() (seconds float64) {
	for _, part := range []*float64{c.Client, c.Server, c.Postgres} {
		if part != nil {
			seconds += *part
		}
	}
	return seconds
}

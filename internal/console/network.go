package console

import "net/http"

// networkHeader asks a sandbox to play a bad network with the request that carries it.
const networkHeader = "Khata-Sandbox-Network"

// What can be asked for.
const (
	loseRequest = "lose-request"
	loseAnswer  = "lose-answer"
)

// BadNetwork loses what its callers ask it to lose, for a sandbox: "lose-request" closes the connection before the handler sees anything,
// and "lose-answer" lets it do all of its work, and then closes the connection without a byte. To the caller both look alike. Other
// requests pass.
func BadNetwork(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get(networkHeader) {
		case loseRequest:
			panic(http.ErrAbortHandler)
		case loseAnswer:
			next.ServeHTTP(nobody{http.Header{}}, r)
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
}

// nobody takes an answer, and gives it to no one.
type nobody struct{ header http.Header }

func (n nobody) Header() http.Header         { return n.header }
func (n nobody) Write(b []byte) (int, error) { return len(b), nil }
func (n nobody) WriteHeader(int)             {}

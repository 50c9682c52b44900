package auth

import "time"

// What the tests of package auth_test look into.
var (
	ParseKeys  = parseKeys
	MaxLimited = maxLimited
)

// TokensLimit is for how long a revoked token may still let somebody in.
const TokensLimit = tokensLimit

// KeysPause is how far apart readings of the keys of users are at least.
const KeysPause = time.Second

func init() { keysPause = KeysPause }

// Known is how many tokens an Authenticator remembers.
func (a *Authenticator) Known() int {
	a.tokens.mu.Lock()
	defer a.tokens.mu.Unlock()
	return len(a.tokens.value.byID)
}

// Callers is how many callers a Limiter remembers.
func (l *Limiter) Callers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.callers)
}

package auth

import (
	"context"
	"net/url"
	"time"
)

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

// Finished is what came of a sign-in.
type Finished struct {
	Subject, Name, Display, Next string
	Groups                       []string
}

// Finish ends a sign-in, and needs no database.
func (p *Provider) Finish(ctx context.Context, cookie string, answer url.Values) (Finished, error) {
	who, next, err := p.finish(ctx, cookie, answer)
	if err != nil {
		return Finished{}, err
	}
	return Finished{who.subject, who.name, who.display, next, who.groups}, nil
}

// Later sets the provider's clock forward.
func (p *Provider) Later(by time.Duration) {
	p.now = func() time.Time { return time.Now().Add(by) }
}

// Callers is how many callers a Limiter remembers.
func (l *Limiter) Callers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.callers)
}

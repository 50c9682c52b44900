package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/pg"
)

const (
	// tokenPrefix begins every token of a service, so that one that has leaked into a log or a repository is recognised.
	tokenPrefix = "khata_"
	secretBytes = 32
	// maxTokens is how many can be valid at once. A server has them all in memory.
	maxTokens = 10_000
)

var (
	serviceName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	queries     = dbsqlc.New()
)

// TokenSpec is a token that is to be.
type TokenSpec struct {
	// Name is the caller, as it is recorded in transfers. Several tokens can have one.
	Name string
	// Certificate, if it is not empty, makes it a row for a client certificate that bears this name, with no secret.
	Certificate string
	Grants      Grants
	// Expires is after which time it ends; 0 is never.
	Expires time.Duration
}

// Token is a token as it is kept: without its secret.
type Token struct {
	ID, Name, Certificate string
	Grants                Grants
	CreatedAt             time.Time
	CreatedBy             string
	// ExpiresAt and RevokedAt are nil where it never does, and has not been.
	ExpiresAt, RevokedAt *time.Time
}

// Validate returns an error that says what is wrong with it, if anything is.
func (s TokenSpec) Validate() error {
	switch {
	case !serviceName.MatchString(s.Name):
		return fmt.Errorf("name %q: want 1 to 63 characters of a-z, 0-9, \".\", \"_\" and \"-\", the first a letter or digit", s.Name)
	case s.Name == "khata":
		return errors.New("name \"khata\" is Khata's own: it expires holds under it")
	case len(s.Grants) == 0:
		return errors.New("a token needs a role in a ledger at least")
	case s.Expires < 0:
		return fmt.Errorf("expiry %v lies in the past", s.Expires)
	}
	return nil
}

// Register is the list of tokens, as the owner of the database keeps it.
type Register struct{ pool *pgxpool.Pool }

// OpenRegister connects to a database as its owner.
func OpenRegister(ctx context.Context, dsn string) (*Register, error) {
	pool, err := pg.Connect(ctx, pg.Config{DSN: dsn, MaxConns: 1})
	if err != nil {
		return nil, err
	}
	return &Register{pool}, nil
}

// Close ends the connection.
func (r *Register) Close() { r.pool.Close() }

// Create makes a token and gives its secret, which can never be read again; it is empty for a certificate.
func (r *Register) Create(ctx context.Context, spec TokenSpec) (Token, string, error) {
	if err := spec.Validate(); err != nil {
		return Token{}, "", err
	}
	valid, err := queries.TokenListValid(ctx, r.pool, maxTokens)
	if err != nil {
		return Token{}, "", fmt.Errorf("read the tokens: %w", err)
	}
	if len(valid) >= maxTokens {
		return Token{}, "", fmt.Errorf("%d tokens are valid, which is the most: revoke those that nobody uses", len(valid))
	}
	for _, v := range valid {
		if spec.Certificate != "" && v.Certificate != nil && *v.Certificate == spec.Certificate && v.Name != spec.Name {
			return Token{}, "", fmt.Errorf("certificate %s is that of %s (token %s): revoke it first, or use its name", spec.Certificate, v.Name, v.TokenID)
		}
	}
	args := dbsqlc.TokenInsertParams{TokenID: newTokenID(), Name: spec.Name, Grants: spec.Grants.List()}
	var secret string
	if spec.Certificate != "" {
		args.Certificate = &spec.Certificate
	} else {
		secret, args.SecretSha256 = newSecret(args.TokenID)
	}
	if spec.Expires > 0 {
		seconds := spec.Expires.Seconds()
		args.Seconds = &seconds
	}
	row, err := queries.TokenInsert(ctx, r.pool, args)
	if err != nil {
		return Token{}, "", asOwner("write the token", err)
	}
	return Token{
		ID: args.TokenID, Name: spec.Name, Certificate: spec.Certificate, Grants: spec.Grants,
		CreatedAt: row.CreatedAt, CreatedBy: row.CreatedBy, ExpiresAt: row.ExpiresAt,
	}, secret, nil
}

// List gives all tokens that there ever were, the oldest first.
func (r *Register) List(ctx context.Context) ([]Token, error) {
	rows, err := queries.TokenList(ctx, r.pool)
	if err != nil {
		return nil, fmt.Errorf("read the tokens: %w", err)
	}
	list := make([]Token, len(rows))
	for i, row := range rows {
		grants, err := ParseGrants(row.Grants)
		if err != nil {
			return nil, fmt.Errorf("token %s: %w", row.TokenID, err)
		}
		list[i] = Token{
			ID: row.TokenID, Name: row.Name, Grants: grants, CreatedAt: row.CreatedAt, CreatedBy: row.CreatedBy,
			ExpiresAt: row.ExpiresAt, RevokedAt: row.RevokedAt,
		}
		if row.Certificate != nil {
			list[i].Certificate = *row.Certificate
		}
	}
	return list, nil
}

// ErrNoToken is the error of an id that no token has.
var ErrNoToken = errors.New("there is no such token")

// Revoke ends a token for ever, and gives its name and since when it is revoked. Servers know within five seconds.
func (r *Register) Revoke(ctx context.Context, id string) (name string, at time.Time, err error) {
	row, err := queries.TokenRevoke(ctx, r.pool, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", time.Time{}, ErrNoToken
	} else if err != nil {
		return "", time.Time{}, asOwner("revoke the token", err)
	}
	return row.Name, *row.RevokedAt, nil
}

// asOwner says what to do where the role of the servers was given instead of the owner's.
func asOwner(doing string, err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "42501" {
		return fmt.Errorf("%s: %w (connect as the owner of the database, such as khata_owner)", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func newTokenID() string {
	id := make([]byte, 10)
	_, _ = rand.Read(id) // It never fails.
	return strings.ToLower(base32.StdEncoding.EncodeToString(id))
}

// newSecret makes the text of a token and the hash of its secret. No slow hash: 32 random bytes cannot be guessed, and every call
// would pay for it.
func newSecret(id string) (text string, hash []byte) {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // It never fails.
	sum := sha256.Sum256(secret)
	return tokenPrefix + id + "_" + base64.RawURLEncoding.EncodeToString(secret), sum[:]
}

// parseToken takes the text of a token apart.
func parseToken(text string) (id string, hash [sha256.Size]byte, ok bool) {
	rest, ok := strings.CutPrefix(text, tokenPrefix)
	if !ok {
		return "", hash, false
	}
	id, encoded, ok := strings.Cut(rest, "_")
	secret, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if !ok || err != nil || len(secret) != secretBytes || id == "" || len(id) > 32 {
		return "", hash, false
	}
	return id, sha256.Sum256(secret), true
}

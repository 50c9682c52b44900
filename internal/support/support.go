package support

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/retry"
	"github.com/khata-ledger/khata/ledger"
)

const (
	// maxNote and maxTicket are in bytes; maxActor is the most of a name, and of an address.
	maxNote, maxTicket, maxActor = 1000, 100, 256
)

// Config is what a Desk is made of beside the books.
type Config struct {
	// Lifetime is how long a request for a refund waits for another person, and for its posting. Default 72 h, at most 30 days.
	Lifetime time.Duration
	// Tellers add to the story of a transfer what other rooms know of it, and Piles to the review list what waits there. A deployment has those
	// that it has.
	Tellers []Teller
	Piles   []Pile
	// Suspects knows which payments may be one; nil where nobody looks for those.
	Suspects Suspects
	// PaymentID gives the id that a payment of the payment API has in the books, by its user and key; nil where there is none.
	PaymentID func(user, key string) ledger.TransferID
}

// Desk is where people help customers: they find transfers, read their stories and give money back. It is safe for concurrent use, and any number
// of servers may have one on the same database. Every error that its methods return is a *ledger.Error by errors.As. Beside those that each names
// they return CodeLedgerNotFound; CodeUnavailable, CodeDeadlineExceeded, CodeCancelled or CodeConflict, after which the same may be asked again; and
// CodeInternal.
//
// Who may do what is for its caller to know: the desk is told who it is, and writes it down.
type Desk struct {
	journal *journal.Journal
	pool    *pgxpool.Pool
	sql     *dbsqlc.Queries
	audit   *Audit
	hook    *outcomeHook
	config  Config

	// sweepBatch is how many requests a sweep posts at most, and swept where the next one goes on.
	sweepBatch int32
	sweeping   sync.Mutex
	swept      sweepPlace
}

// New makes a Desk on a journal, and on the pool in which its tables are.
func New(j *journal.Journal, pool *pgxpool.Pool, config Config) *Desk {
	if config.Lifetime <= 0 {
		config.Lifetime = 72 * time.Hour
	}
	config.Lifetime = min(config.Lifetime, 30*24*time.Hour)
	d := &Desk{journal: j, pool: pool, sql: dbsqlc.New(), audit: NewAudit(pool), hook: &outcomeHook{}, config: config, sweepBatch: sweepBatch}
	d.audit.desk = d
	return d
}

// Audit is where the desk writes down what people do: others may write there, too.
func (d *Desk) Audit() *Audit { return d.audit }

// Actor is a person, or a program that acts for one.
type Actor struct {
	// Name is the authenticated one.
	Name string
	// Address is the network address that the request came from; empty where there is none.
	Address string
}

func (a Actor) validate() error {
	if err := validateText("actor", a.Name, true, maxActor); err != nil {
		return err
	}
	return validateText("address", a.Address, false, maxActor)
}

// validateText checks what a person has written.
func validateText(field, text string, required bool, most int) error {
	switch {
	case required && strings.TrimSpace(text) == "":
		return ledger.Invalid(field, "is required")
	case len(text) > most:
		return ledger.Invalid(field, "has %d bytes, at most %d are allowed", len(text), most)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return ledger.Invalid(field, "is not text")
	}
	return nil
}

// patience is how a desk waits for the database.
var patience = retry.Policy{Budget: 30 * time.Second, Contended: "others keep changing the same"}

// change runs f in a transaction, again while that may help: f must leave nothing behind but what it returns at last, and know its own work again.
func change(ctx context.Context, pool *pgxpool.Pool, doing string, f func(tx pgx.Tx) error) error {
	return patience.Do(ctx, doing, func(bool) error {
		return pg.InTx(ctx, pool, func(tx pgx.Tx) error {
			if err := f(tx); err != nil {
				return err
			}
			// What is answered for must be on the standby, too, even if it was there before.
			return dbsqlc.New().WaitForStandby(ctx, tx)
		})
	})
}

// public turns an error into one for callers.
func public(ctx context.Context, doing string, err error) error {
	return patience.Public(ctx, doing, err)
}

// ledgerID is the number of a ledger. It returns CodeLedgerNotFound.
func (d *Desk) ledgerID(ctx context.Context, name ledger.Name) (int32, error) {
	found, err := d.sql.SupportLedger(ctx, d.pool, string(name.Or()))
	if err != nil {
		return 0, public(ctx, "find the ledger", err)
	}
	if len(found) == 0 {
		return 0, noLedger(name)
	}
	return found[0], nil
}

func noLedger(name ledger.Name) error {
	return ledger.Errorf(ledger.CodeLedgerNotFound, "ledger %.80q does not exist", string(name.Or()))
}

// prefixOfWay is what package auth puts before a name for the way in which somebody has come.
var prefixOfWay = regexp.MustCompile(`^(?i:oidc|local|user):`)

// SamePerson reports whether two names are of one person: they differ in the case of letters at most, or in the way in which they came. Somebody who has
// a token beside the sign-in with an identity provider does not become two people by it. The database has the same rule: support_person.
func SamePerson(a, b string) bool {
	return strings.EqualFold(prefixOfWay.ReplaceAllString(a, ""), prefixOfWay.ReplaceAllString(b, ""))
}

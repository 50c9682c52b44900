package grpcapi_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/server"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// guarded is a server that asks callers who they are.
type guarded struct {
	*bench
	register *auth.Register
}

func guard(t testing.TB, change func(*server.Config)) *guarded {
	t.Helper()
	db := pgtest.New(t)
	config := server.Config{
		DSN: db.ServiceDSN(), GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Auth: true, Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&config)
	}
	s, err := server.Start(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	register, err := auth.OpenRegister(context.Background(), db.OwnerDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(register.Close)
	conn := connect(t, s.GRPCAddr())
	return &guarded{&bench{LedgerServiceClient: khatav1.NewLedgerServiceClient(conn), db: db, conn: conn, addr: s.GRPCAddr()}, register}
}

func (g *guarded) token(t testing.TB, name string, grants ...string) (auth.Token, string) {
	t.Helper()
	parsed, err := auth.ParseGrants(grants)
	if err != nil {
		t.Fatal(err)
	}
	token, secret, err := g.register.Create(context.Background(), auth.TokenSpec{Name: name, Grants: parsed})
	if err != nil {
		t.Fatal(err)
	}
	return token, secret
}

func with(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// as is the context of a new caller with these roles.
func (g *guarded) as(t testing.TB, name string, grants ...string) context.Context {
	t.Helper()
	_, secret := g.token(t, name, grants...)
	return with(t.Context(), secret)
}

// ask calls a method with an empty request about a ledger.
func (g *guarded) ask(ctx context.Context, m protoreflect.MethodDescriptor, ledger string) error {
	in := dynamicpb.NewMessage(m.Input())
	for _, field := range []protoreflect.Name{"ledger", "name"} {
		if f := m.Input().Fields().ByName(field); f != nil && ledger != "" && (field == "ledger" || m.Name() == "CreateLedger") {
			in.Set(f, protoreflect.ValueOfString(ledger))
		}
	}
	return g.conn.Invoke(ctx, path(m), in, dynamicpb.NewMessage(m.Output()))
}

func TestPolicy_HasEveryMethod(t *testing.T) {
	t.Parallel()
	for i := range methods().Len() {
		m := methods().Get(i)
		rule, ok := auth.RuleOf(path(m))
		if !ok {
			t.Errorf("%s is missing from the policy: nobody may call it", path(m))
			continue
		}
		if rule.Scope == auth.Anyone || rule.Roles == 0 {
			t.Errorf("%s is for anyone, or no one: %+v", path(m), rule)
		}
		// What a rule about a ledger goes by.
		about := m.Input().Fields().ByName("ledger") != nil || m.Name() == "CreateLedger"
		if about != (rule.Scope == auth.InLedger) {
			t.Errorf("%s: its request names a ledger: %t, its rule is about one: %t", path(m), about, rule.Scope == auth.InLedger)
		}
	}
	// And nothing in it has gone.
	for _, method := range auth.Methods() {
		name, ours := strings.CutPrefix(method, "/khata.v1.LedgerService/")
		if ours && methods().ByName(protoreflect.Name(name)) == nil {
			t.Errorf("%s has a rule and is no method", method)
		}
	}
}

// Every method × role, and the two ways of having none.
func TestRoles_EveryMethod(t *testing.T) {
	t.Parallel()
	g := guard(t, nil)
	callers := map[string]context.Context{"": t.Context(), "elsewhere": g.as(t, "elsewhere", "other:poster", "other:reader", "other:admin")}
	for _, role := range auth.RoleNames() {
		callers[role] = g.as(t, role, "main:"+role)
	}
	for i := range methods().Len() {
		m := methods().Get(i)
		rule, _ := auth.RuleOf(path(m))
		for name, ctx := range callers {
			want := codes.PermissionDenied
			switch role, err := auth.ParseRole(name); {
			case name == "":
				want = codes.Unauthenticated
			case name == "elsewhere" && rule.Scope == auth.Somewhere, err == nil && rule.Roles&role != 0:
				want = codes.OK
			}
			got := status.Code(g.ask(ctx, m, "main"))
			if denied := got == codes.PermissionDenied || got == codes.Unauthenticated; denied != (want != codes.OK) || denied && got != want {
				t.Errorf("%s by %q: %s, want %s", m.Name(), name, got, want)
			}
			if m.Name() != "CreateLedger" && name != "" && name != "elsewhere" {
				if got := status.Code(g.ask(ctx, m, "other")); rule.Scope == auth.InLedger && got != codes.PermissionDenied {
					t.Errorf("%s in another ledger by %q: %s", m.Name(), name, got)
				}
			}
		}
	}
	if resp, err := healthpb.NewHealthClient(g.conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health without a token: %v %v", resp, err)
	}
	if err := g.conn.Invoke(t.Context(), "/khata.v1.LedgerService/StealEverything", &khatav1.ListLedgersRequest{}, &khatav1.ListLedgersResponse{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a method that there is not: %v", err)
	}
}

// What is not there and what is not theirs look the same to those who have no role.
func TestP12_NothingIsRevealed(t *testing.T) {
	t.Parallel()
	g := guard(t, nil)
	admin, poster := g.as(t, "admin", "*:admin"), g.as(t, "checkout", "secret:poster", "secret:reader")
	if _, err := g.CreateLedger(admin, &khatav1.CreateLedgerRequest{Name: "secret"}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.CreateAccounts(poster, &khatav1.CreateAccountsRequest{Ledger: "secret", Accounts: []*khatav1.NewAccount{account("cash BDT"), account("wallet:shimul BDT")}}); err != nil {
		t.Fatal(err)
	}
	hold := &khatav1.NewTransfer{
		TransferId: "H-1", DebitAccount: "cash", CreditAccount: "wallet:shimul", Amount: "5",
		Kind: &khatav1.NewTransfer_Hold{Hold: &khatav1.Hold{}},
	}
	plain := move("T-1", "cash", "wallet:shimul", "7")
	for _, transfer := range []*khatav1.NewTransfer{hold, plain} {
		if _, err := g.PostTransfer(poster, &khatav1.PostTransferRequest{Ledger: "secret", Transfer: transfer}); err != nil {
			t.Fatal(err)
		}
	}

	// A caller of another ledger: every method, of what is there and of what is not.
	stranger := g.as(t, "stranger", "main:poster", "main:reader", "main:admin")
	for i := range methods().Len() {
		m := methods().Get(i)
		if rule, _ := auth.RuleOf(path(m)); rule.Scope != auth.InLedger {
			continue
		}
		there, missing := g.ask(stranger, m, "secret"), g.ask(stranger, m, "absent")
		if a, b := fmt.Sprint(there), strings.ReplaceAll(fmt.Sprint(missing), "absent", "secret"); a != b || status.Code(there) != codes.PermissionDenied {
			t.Errorf("%s tells a ledger that exists from one that does not:\n%s\n%s", m.Name(), a, b)
		}
	}
	void := func(id string) *khatav1.NewTransfer {
		return &khatav1.NewTransfer{TransferId: "V-" + id, Kind: &khatav1.NewTransfer_Void{Void: &khatav1.Void{Hold: id}}}
	}
	for name, pair := range map[string][2]error{
		"an account":  {errOf(g.GetAccount(stranger, &khatav1.GetAccountRequest{Ledger: "secret", Account: "cash"})), errOf(g.GetAccount(stranger, &khatav1.GetAccountRequest{Ledger: "secret", Account: "none"}))},
		"a balance":   {errOf(g.GetBalance(stranger, &khatav1.GetBalanceRequest{Ledger: "secret", Account: "cash"})), errOf(g.GetBalance(stranger, &khatav1.GetBalanceRequest{Ledger: "secret", Account: "none"}))},
		"holds":       {errOf(g.ListHolds(stranger, &khatav1.ListHoldsRequest{Ledger: "secret", Account: "cash"})), errOf(g.ListHolds(stranger, &khatav1.ListHoldsRequest{Ledger: "secret", Account: "none"}))},
		"a transfer":  {errOf(g.GetTransfer(stranger, &khatav1.GetTransferRequest{Ledger: "secret", TransferId: "T-1"})), errOf(g.GetTransfer(stranger, &khatav1.GetTransferRequest{Ledger: "secret", TransferId: "none"}))},
		"a taken id":  {errOf(g.PostTransfer(stranger, &khatav1.PostTransferRequest{Ledger: "secret", Transfer: plain})), errOf(g.PostTransfer(stranger, &khatav1.PostTransferRequest{Ledger: "secret", Transfer: move("free", "cash", "wallet:shimul", "7")}))},
		"a hold":      {errOf(g.PostTransfer(stranger, &khatav1.PostTransferRequest{Ledger: "secret", Transfer: void("H-1")})), errOf(g.PostTransfer(stranger, &khatav1.PostTransferRequest{Ledger: "secret", Transfer: void("none")}))},
		"an old page": {errOf(g.ListEntries(stranger, &khatav1.ListEntriesRequest{Ledger: "secret", Account: "cash", PageToken: "x"})), errOf(g.ListEntries(stranger, &khatav1.ListEntriesRequest{Ledger: "secret", Account: "none"}))},
	} {
		if status.Code(pair[0]) != codes.PermissionDenied || pair[0].Error() != pair[1].Error() {
			t.Errorf("%s that is there looks other than one that is not:\n%v\n%v", name, pair[0], pair[1])
		}
	}
	// A ledger "*" is no way in, nor the empty name, which is main.
	if err := errOf(g.GetAccount(poster, &khatav1.GetAccountRequest{Ledger: "*", Account: "cash"})); status.Code(err) != codes.PermissionDenied {
		t.Errorf("ledger *: %v", err)
	}
	if err := errOf(g.GetAccount(poster, &khatav1.GetAccountRequest{Account: "cash"})); status.Code(err) != codes.PermissionDenied {
		t.Errorf("no ledger: %v", err)
	}
	// The list has what is theirs.
	for _, c := range []struct {
		ctx  context.Context
		want string
	}{{stranger, "main"}, {poster, "secret"}, {admin, "main secret"}} {
		list, err := g.ListLedgers(c.ctx, &khatav1.ListLedgersRequest{})
		var names []string
		for _, l := range list.GetLedgers() {
			names = append(names, l.GetName())
		}
		if got := strings.Join(names, " "); err != nil || got != c.want {
			t.Errorf("ledgers: %q %v, want %q", got, err, c.want)
		}
	}

	// Another caller of the same ledger learns of an id that it is taken: of the same content, and of other.
	other := g.as(t, "billing", "secret:poster")
	var said []string
	for _, transfer := range []*khatav1.NewTransfer{plain, move("T-1", "wallet:shimul", "cash", "8"), void("H-1")} {
		transfer.TransferId = "T-1"
		err := errOf(g.PostTransfer(other, &khatav1.PostTransferRequest{Ledger: "secret", Transfer: transfer}))
		for _, detail := range status.Convert(err).Details() {
			if _, ok := detail.(*errdetails.BadRequest); ok {
				t.Errorf("a taken id: its fields are named: %v", detail)
			}
		}
		if status.Code(err) != codes.AlreadyExists {
			t.Errorf("a taken id: %v", err)
		}
		said = append(said, err.Error())
	}
	if len(slices.Compact(said)) != 1 {
		t.Errorf("a taken id: what is said depends on the content: %q", said)
	}
	// Who may post and not read, sees no balance.
	err := errOf(g.PostTransfer(other, &khatav1.PostTransferRequest{Ledger: "secret", Transfer: move("T-2", "cash", "wallet:shimul", "1"), IncludeBalances: true}))
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "balances") {
		t.Errorf("balances for a poster: %v", err)
	}
	if err := errOf(g.PostTransfer(poster, &khatav1.PostTransferRequest{Ledger: "secret", Transfer: move("T-3", "cash", "wallet:shimul", "1"), IncludeBalances: true})); err != nil {
		t.Errorf("balances for a poster who reads: %v", err)
	}
	// Each is recorded under the name of its caller.
	got, err := g.GetTransfer(poster, &khatav1.GetTransferRequest{Ledger: "secret", TransferId: "T-3"})
	if err != nil || got.GetTransfer().GetCaller() != "checkout" {
		t.Errorf("recorded as %q, %v", got.GetTransfer().GetCaller(), err)
	}
}

func errOf[T any](_ T, err error) error { return err }

// Support refunds at its desk, where another person has to agree, and by no road around it.
func TestSupport_PostsNothing(t *testing.T) {
	t.Parallel()
	g := guard(t, nil)
	checkout, support := g.as(t, "checkout", "main:poster"), g.as(t, "support.tithi", "main:support", "main:approver")
	if _, err := g.CreateAccounts(checkout, &khatav1.CreateAccountsRequest{Accounts: []*khatav1.NewAccount{account("cash BDT"), account("shop BDT")}}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.PostTransfer(checkout, &khatav1.PostTransferRequest{Transfer: move("T-1", "cash", "shop", "7")}); err != nil {
		t.Fatal(err)
	}
	refund := &khatav1.NewTransfer{TransferId: "T-1-R", Kind: &khatav1.NewTransfer_Refund{Refund: &khatav1.Refund{
		Original: "T-1", Everything: true, ExpectedRefunded: "0", Reason: khatav1.RefundReason_REFUND_REASON_DUPLICATE,
	}}}
	reversal := &khatav1.NewTransfer{TransferId: "X", Kind: &khatav1.NewTransfer_Reversal{Reversal: &khatav1.Reversal{Original: "T-1"}}}
	for name, err := range map[string]error{
		"a refund":              errOf(g.PostTransfer(support, &khatav1.PostTransferRequest{Transfer: refund})),
		"refunds":               errOf(g.PostTransfers(support, &khatav1.PostTransfersRequest{Transfers: []*khatav1.NewTransfer{refund}})),
		"refunds, atomically":   errOf(g.PostTransfers(support, &khatav1.PostTransfersRequest{Transfers: []*khatav1.NewTransfer{refund}, Atomic: true})),
		"a transfer":            errOf(g.PostTransfer(support, &khatav1.PostTransferRequest{Transfer: move("M", "shop", "cash", "1")})),
		"nothing":               errOf(g.PostTransfer(support, &khatav1.PostTransferRequest{})),
		"a reversal":            errOf(g.PostTransfer(support, &khatav1.PostTransferRequest{Transfer: reversal})),
		"a refund by a reader":  errOf(g.PostTransfer(g.as(t, "auditor", "main:reader"), &khatav1.PostTransferRequest{Transfer: refund})),
		"a refund by an admin":  errOf(g.PostTransfer(g.as(t, "ops", "main:admin"), &khatav1.PostTransferRequest{Transfer: refund})),
		"a refund, other books": errOf(g.PostTransfer(support, &khatav1.PostTransferRequest{Ledger: "other", Transfer: refund})),
	} {
		if status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := g.PostTransfer(checkout, &khatav1.PostTransferRequest{Transfer: refund}); err != nil {
		t.Errorf("a refund by a service: %v", err)
	}
}

func TestTokens_NotValid(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(t.TempDir(), "keys.pem")
	if err := os.WriteFile(keys, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	g := guard(t, func(c *server.Config) {
		c.JWT = &auth.JWTConfig{Issuer: "https://id.example", Audience: "khata", Keys: keys}
	})
	user := func(key ed25519.PrivateKey, c jwt.Claims) string {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key}, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := jwt.Signed(signer).Claims(c).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	in := func(d time.Duration) *jwt.NumericDate { return jwt.NewNumericDate(time.Now().Add(d)) }
	good := jwt.Claims{Issuer: "https://id.example", Audience: jwt.Audience{"khata"}, Subject: "shimul", Expiry: in(time.Hour)}
	differs := func(change func(*jwt.Claims)) string {
		c := good
		change(&c)
		return user(private, c)
	}
	_, strange, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	token, secret := g.token(t, "checkout", "*:poster", "*:reader")
	revoked, revokedSecret := g.token(t, "checkout", "*:poster", "*:reader")
	if _, _, err := g.register.Revoke(t.Context(), revoked.ID); err != nil {
		t.Fatal(err)
	}
	call := func(ctx context.Context) error {
		return errOf(g.PostTransfer(ctx, &khatav1.PostTransferRequest{Transfer: move("T", "cash", "shop", "1")}))
	}
	if err := call(with(t.Context(), secret)); status.Code(err) != codes.NotFound {
		t.Fatalf("with a valid token: %v", err)
	}
	for name, c := range map[string]struct {
		ctx  context.Context
		want codes.Code
	}{
		"none":                 {t.Context(), codes.Unauthenticated},
		"two":                  {with(with(t.Context(), secret), secret), codes.Unauthenticated},
		"another scheme":       {metadata.AppendToOutgoingContext(t.Context(), "authorization", "Basic "+secret), codes.Unauthenticated},
		"another secret":       {with(t.Context(), strings.Replace(secret, "_"+token.ID+"_", "_"+revoked.ID+"_", 1)), codes.Unauthenticated},
		"revoked":              {with(t.Context(), revokedSecret), codes.Unauthenticated},
		"of a user":            {with(t.Context(), user(private, good)), codes.PermissionDenied},
		"of a user, forged":    {with(t.Context(), user(strange, good)), codes.Unauthenticated},
		"of a user, expired":   {with(t.Context(), differs(func(c *jwt.Claims) { c.Expiry = in(-time.Minute) })), codes.Unauthenticated},
		"of a user, too early": {with(t.Context(), differs(func(c *jwt.Claims) { c.NotBefore = in(time.Minute) })), codes.Unauthenticated},
		"of another audience":  {with(t.Context(), differs(func(c *jwt.Claims) { c.Audience = jwt.Audience{"console"} })), codes.Unauthenticated},
		"of another issuer":    {with(t.Context(), differs(func(c *jwt.Claims) { c.Issuer = "https://evil.example" })), codes.Unauthenticated},
	} {
		err := call(c.ctx)
		if status.Code(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
		if infos := status.Convert(err).Details(); len(infos) == 0 {
			t.Errorf("%s: the error has no reason", name)
		}
	}
	// Before a request is even decoded.
	var answer []byte
	if err := g.conn.Invoke(t.Context(), "/khata.v1.LedgerService/PostTransfer", []byte{0xff}, &answer, grpc.ForceCodec(rawCodec{})); status.Code(err) != codes.Unauthenticated {
		t.Errorf("rubbish without a token: %v", err)
	}
}

// While callers go on, one token is replaced by another, and no call fails.
func TestTokens_RotationWithoutDowntime(t *testing.T) {
	t.Parallel()
	g := guard(t, nil)
	old, secret := g.token(t, "checkout", "main:reader", "main:poster")
	if _, err := g.CreateAccounts(with(t.Context(), secret), &khatav1.CreateAccountsRequest{Accounts: []*khatav1.NewAccount{account("cash BDT"), account("shop BDT")}}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.PostTransfer(with(t.Context(), secret), &khatav1.PostTransferRequest{Transfer: move("T-1", "cash", "shop", "1")}); err != nil {
		t.Fatal(err)
	}
	var current sync.Map
	current.Store(0, secret)
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				held, _ := current.Load(0)
				if _, err := g.GetBalance(with(t.Context(), held.(string)), &khatav1.GetBalanceRequest{Account: "cash"}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	_, next := g.token(t, "checkout", "main:reader", "main:poster")
	current.Store(0, next)
	time.Sleep(50 * time.Millisecond) // Calls under way with the old one end.
	if _, _, err := g.register.Revoke(t.Context(), old.ID); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(6 * time.Second)
	for status.Code(errOf(g.GetBalance(with(t.Context(), secret), &khatav1.GetBalanceRequest{Account: "cash"}))) != codes.Unauthenticated {
		if time.Now().After(deadline) {
			t.Fatal("the old token still lets in")
		}
		time.Sleep(20 * time.Millisecond)
	}
	close(stop)
	callers.Wait()
	// The name is the same, and so is the caller: a retry of what was posted with the old token is the first answer again.
	again, err := g.PostTransfer(with(t.Context(), next), &khatav1.PostTransferRequest{Transfer: move("T-1", "cash", "shop", "1")})
	if err != nil || !again.GetResult().GetReplayed() {
		t.Errorf("a retry with the new token: %v %v", again, err)
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	g := guard(t, func(c *server.Config) { c.RateLimit, c.RateBurst = 5, 3 })
	busy, other := g.as(t, "busy", "main:reader"), g.as(t, "other", "main:reader")
	ask := func(ctx context.Context) error { return errOf(g.ListCurrencies(ctx, &khatav1.ListCurrenciesRequest{})) }
	var limited error
	for n := 0; n < 500 && limited == nil; n++ { // On a slow machine some more come in between.
		limited = ask(busy)
	}
	if err := ask(other); err != nil {
		t.Errorf("another caller: %v", err)
	}
	st := status.Convert(limited)
	var reason string
	var wait time.Duration
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			reason = d.GetReason()
		case *errdetails.RetryInfo:
			wait = d.GetRetryDelay().AsDuration()
		}
	}
	if st.Code() != codes.ResourceExhausted || reason != "RATE_LIMITED" || wait <= 0 || wait > 200*time.Millisecond {
		t.Fatalf("%v, %s, after %v", limited, reason, wait)
	}
	time.Sleep(wait + 20*time.Millisecond)
	if err := ask(busy); err != nil {
		t.Errorf("after the time that was said: %v", err)
	}
}

package auth

import (
	"maps"
	"slices"
	"strings"

	"github.com/khata-ledger/khata/ledger"
)

// Scope is where a caller must have a role.
type Scope int

// The scopes.
const (
	// InLedger: in the ledger that the request is about.
	InLedger Scope = iota
	// Somewhere: in any ledger. The answer holds only what is of the ledgers in which the caller has a role.
	Somewhere
	// Everywhere: in all ledgers, by a grant for AllLedgers.
	Everywhere
	// Anyone: nowhere. Whoever reaches the server may call it.
	Anyone
)

// Rule is who may call something.
type Rule struct {
	Scope Scope
	// Roles are those of which a caller must have one.
	Roles Roles
	// Users is whether users may call it, for what is theirs. What that is, Identity.Owns says, and the handler has to ask it.
	Users bool
	// Balances are those of which a caller must have one besides if the answer is to tell balances.
	Balances Roles
}

const (
	ledgerService  = "/khata.v1.LedgerService/"
	reportService  = "/khata.v1.ReportService/"
	bankService    = "/khata.v1.ReconcileService/"
	supportService = "/khata.v1.SupportService/"
	healthService  = "/grpc.health.v1.Health/"

	// helping is the roles that look after single payments of customers.
	helping = Support | Finance | Approver | Admin
)

// policy is the one table of who may call what. Methods of gRPC go by their full names, routes of HTTP by method and pattern. What is
// not in it nobody may call; tests fail for a method that is missing.
var policy = map[string]Rule{
	ledgerService + "CreateLedger":     {Roles: Admin}, // in the ledger that is to be
	ledgerService + "ListLedgers":      {Scope: Somewhere, Roles: AnyRole},
	ledgerService + "RegisterCurrency": {Roles: Admin},
	ledgerService + "ListCurrencies":   {Roles: AnyRole},
	ledgerService + "CreateAccount":    {Roles: Poster | Admin},
	ledgerService + "CreateAccounts":   {Roles: Poster | Admin},
	ledgerService + "GetAccount":       {Roles: Reading},
	ledgerService + "ListAccounts":     {Roles: Reading},
	ledgerService + "UpdateAccount":    {Roles: Admin},
	ledgerService + "PostTransfer":     {Roles: Poster, Balances: Reading},
	ledgerService + "PostTransfers":    {Roles: Poster, Balances: Reading},
	ledgerService + "GetTransfer":      {Roles: Reading},
	ledgerService + "ListHolds":        {Roles: Reading},
	ledgerService + "GetBalance":       {Roles: Reading},
	ledgerService + "GetBalances":      {Roles: Reading},
	ledgerService + "ListEntries":      {Roles: Reading},
	// Whoever closes the books does not open them again.
	ledgerService + "ClosePeriod":       {Roles: Finance | Admin},
	ledgerService + "ReopenPeriod":      {Roles: Admin},
	ledgerService + "ListPeriodChanges": {Roles: Reading},

	reportService + "ListReports":    {Scope: Somewhere, Roles: AnyRole}, // what reports there are, and nothing that is in them
	reportService + "RunReport":      {Roles: Reporting},
	reportService + "IssueStatement": {Roles: Finance},
	reportService + "GetStatement":   {Roles: Reporting},
	reportService + "ListStatements": {Roles: Reporting},
	reportService + "ExportBook":     {Roles: Reporting},
	reportService + "ExportEntries":  {Roles: Reporting},

	// Finance reconciles. How the bank's files are read is for an admin, too.
	bankService + "CreateBankAccount":        {Roles: Finance | Admin},
	bankService + "UpdateBankAccount":        {Roles: Finance | Admin},
	bankService + "GetBankAccount":           {Roles: Reporting},
	bankService + "ListBankAccounts":         {Roles: Reporting},
	bankService + "SaveBankProfile":          {Roles: Finance | Admin},
	bankService + "GetBankProfile":           {Roles: Reporting},
	bankService + "ListBankProfiles":         {Roles: Reporting},
	bankService + "ImportBankFile":           {Roles: Finance},
	bankService + "GetBankFile":              {Roles: Reporting},
	bankService + "ListBankFiles":            {Roles: Reporting},
	bankService + "GetBankLine":              {Roles: Reporting},
	bankService + "ListBankLines":            {Roles: Reporting},
	bankService + "MatchBankAccount":         {Roles: Finance},
	bankService + "GetReconcileRun":          {Roles: Reporting},
	bankService + "ListReconcileRuns":        {Roles: Reporting},
	bankService + "RepeatReconcileRun":       {Roles: Reporting},
	bankService + "ListReconcileResults":     {Roles: Reporting},
	bankService + "ListReconcileSuggestions": {Roles: Reporting},
	bankService + "ConfirmMatch":             {Roles: Finance},
	bankService + "IgnoreItem":               {Roles: Finance},
	bankService + "UndoDecision":             {Roles: Finance},
	bankService + "ApproveDifference":        {Roles: Finance},
	bankService + "GetDecision":              {Roles: Reporting},
	bankService + "ListDecisions":            {Roles: Reporting},
	bankService + "RunReconcileReport":       {Roles: Reporting},
	bankService + "RunDriftReport":           {Roles: Reporting},

	supportService + "ListSuspects":     {Roles: Support | Reporting},
	supportService + "GetSuspect":       {Roles: Support | Reporting},
	supportService + "DismissSuspect":   {Roles: Support | Finance},
	supportService + "UndismissSuspect": {Roles: Support | Finance},
	// Support asks for refunds. That whoever approves one is another person, the database sees to.
	supportService + "FindTransfers":      {Roles: helping},
	supportService + "GetStory":           {Roles: helping},
	supportService + "GetRefundForm":      {Roles: helping},
	supportService + "RequestRefund":      {Roles: Support},
	supportService + "DecideRefund":       {Roles: Support | Approver},
	supportService + "GetRefundRequest":   {Roles: helping},
	supportService + "ListRefundRequests": {Roles: helping},
	supportService + "SetRefundLimit":     {Roles: Admin},
	supportService + "ListRefundLimits":   {Roles: helping},
	supportService + "GetReviewList":      {Roles: helping},
	supportService + "ListAuditEvents":    {Roles: Finance | Admin},

	// Whoever balances load has no token, and learns only whether to send requests here.
	healthService + "Check": {Scope: Anyone},
	healthService + "List":  {Scope: Anyone},
	healthService + "Watch": {Scope: Anyone},
	"GET /healthz":          {Scope: Anyone},
	"GET /readyz":           {Scope: Anyone},
	// The shape of the API is public.
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      {Scope: Anyone},
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": {Scope: Anyone},

	// The payment API, in the ledger that it serves.
	"POST /v1/transfers": {Roles: Poster, Users: true},
	"POST /v1/cash-ins":  {Roles: Poster, Users: true},
	// Support refunds at its desk, where another person has to agree: this road would lead around that.
	"POST /v1/refunds":                           {Roles: Poster, Users: true},
	"GET /v1/transfers/{id}":                     {Roles: Poster | Reading, Users: true},
	"GET /v1/transfers/by-idempotency-key/{key}": {Roles: Poster | Support, Users: true},
	"GET /v1/wallets/{id}":                       {Roles: Reading, Users: true},
	"GET /v1/wallets/{id}/entries":               {Roles: Reading, Users: true},
	"PUT /v1/wallets/{id}":                       {Roles: Admin, Users: true},

	// The console: pages for those who may see what is on them, actions for those who may do them.
	"GET /console/":                          {Scope: Somewhere, Roles: Reading},
	"GET /console/signin":                    {Scope: Anyone},
	"POST /console/signin":                   {Scope: Anyone},
	"GET " + OIDCStart:                       {Scope: Anyone},
	"GET " + OIDCCallback:                    {Scope: Anyone},
	"POST /console/signout":                  {Scope: Anyone},
	"GET /console/-/assets/{hash}/{file}":    {Scope: Anyone},
	"GET /console/{ledger}/":                 {Roles: Reading},
	"GET /console/{ledger}/reports/{report}": {Roles: Reporting},
	"GET /console/{ledger}/accounts":         {Roles: Reporting},
	"GET /console/{ledger}/account":          {Roles: Reporting},
	"GET /console/{ledger}/statements":       {Roles: Reporting},
	"GET /console/{ledger}/statements/{no}":  {Roles: Reporting},
	"POST /console/{ledger}/statements":      {Roles: Finance},
	"GET /console/{ledger}/periods":          {Roles: Reporting},
	"POST /console/{ledger}/periods/close":   {Roles: Finance | Admin},
	"POST /console/{ledger}/periods/reopen":  {Roles: Admin},
	// What was decided about the bank is finance's; who runs the ledger may set up what it is decided by.
	"GET /console/{ledger}/reconcile":                                        {Roles: Reporting},
	"GET /console/{ledger}/reconcile/profiles":                               {Roles: Reporting},
	"GET /console/{ledger}/reconcile/profiles/{profile}":                     {Roles: Reporting},
	"GET /console/{ledger}/reconcile/bank/{bank}":                            {Roles: Reporting},
	"GET /console/{ledger}/reconcile/bank/{bank}/files/{no}":                 {Roles: Reporting},
	"GET /console/{ledger}/reconcile/bank/{bank}/work":                       {Roles: Reporting},
	"GET /console/{ledger}/reconcile/bank/{bank}/item":                       {Roles: Reporting},
	"GET /console/{ledger}/reconcile/bank/{bank}/decisions":                  {Roles: Reporting},
	"GET /console/{ledger}/reconcile/bank/{bank}/decisions/{no}":             {Roles: Reporting},
	"GET /console/{ledger}/reconcile/bank/{bank}/statement":                  {Roles: Reporting},
	"GET /console/{ledger}/reconcile/bank/{bank}/items":                      {Roles: Reporting},
	"GET /console/{ledger}/reconcile/bank/{bank}/changes":                    {Roles: Reporting},
	"POST /console/{ledger}/reconcile":                                       {Roles: Finance | Admin},
	"POST /console/{ledger}/reconcile/profiles":                              {Roles: Finance | Admin},
	"POST /console/{ledger}/reconcile/profiles/preview":                      {Roles: Finance | Admin},
	"POST /console/{ledger}/reconcile/bank/{bank}/settings":                  {Roles: Finance | Admin},
	"POST /console/{ledger}/reconcile/bank/{bank}/files":                     {Roles: Finance},
	"POST /console/{ledger}/reconcile/bank/{bank}/match":                     {Roles: Finance},
	"POST /console/{ledger}/reconcile/bank/{bank}/confirm":                   {Roles: Finance},
	"POST /console/{ledger}/reconcile/bank/{bank}/ignore":                    {Roles: Finance},
	"POST /console/{ledger}/reconcile/bank/{bank}/decisions/{no}/unmatch":    {Roles: Finance},
	"POST /console/{ledger}/reconcile/bank/{bank}/decisions/{no}/difference": {Roles: Finance},
	// Whoever looks at a customer's payments is written down. Support asks for refunds, and another person of support, or an approver, agrees.
	"GET /console/{ledger}/support":                  {Roles: helping},
	"GET /console/{ledger}/transfer":                 {Roles: helping},
	"GET /console/{ledger}/refund":                   {Roles: Support},
	"GET /console/{ledger}/refunds":                  {Roles: helping},
	"POST /console/{ledger}/refunds":                 {Roles: Support},
	"GET /console/{ledger}/refunds/{no}":             {Roles: helping},
	"POST /console/{ledger}/refunds/{no}/decide":     {Roles: Support | Approver},
	"GET /console/{ledger}/limits":                   {Roles: helping},
	"POST /console/{ledger}/limits":                  {Roles: Admin},
	"GET /console/{ledger}/review":                   {Roles: helping},
	"GET /console/{ledger}/suspects":                 {Roles: helping},
	"GET /console/{ledger}/suspects/{no}":            {Roles: helping},
	"POST /console/{ledger}/suspects/{no}/dismiss":   {Roles: Support | Finance},
	"POST /console/{ledger}/suspects/{no}/undismiss": {Roles: Support | Finance},
	"GET /console/{ledger}/audit":                    {Roles: Finance | Admin},

	// They tell how much moves, of all ledgers together; a profile also shows what is in memory.
	"GET /metrics":             {Scope: Everywhere, Roles: Reading},
	"GET /debug/pprof/":        {Scope: Everywhere, Roles: Admin},
	"GET /debug/pprof/profile": {Scope: Everywhere, Roles: Admin},
}

// RuleOf gives the rule of a gRPC method or HTTP route, if there is one.
func RuleOf(method string) (Rule, bool) {
	rule, ok := policy[method]
	return rule, ok
}

// Methods lists all that has a rule, sorted.
func Methods() []string { return slices.Sorted(maps.Keys(policy)) }

// Request is what a rule has to know of a call.
type Request struct {
	// Method is the gRPC method or HTTP route.
	Method string
	// Ledger is the one that it is about, where the rule's scope is InLedger.
	Ledger ledger.Name
	// Balances is whether the answer is to tell balances.
	Balances bool
}

// Allow returns CodePermissionDenied unless the policy lets the caller do this. Nothing is looked up: that a ledger does not exist
// is not said to those who may not know.
func (id *Identity) Allow(r Request) error {
	rule, ok := policy[r.Method]
	if !ok {
		return ledger.Errorf(ledger.CodePermissionDenied, "nobody may call %s", nameOf(r.Method))
	}
	var have Roles
	var where string
	switch {
	case rule.Scope == Anyone, id.Kind == User && rule.Users:
		return nil
	case id.Kind == User:
		return ledger.Errorf(ledger.CodePermissionDenied, "%s is a user, and %s is for services", id.Name, nameOf(r.Method))
	}
	switch rule.Scope {
	case InLedger:
		have, where = id.Grants.On(r.Ledger), "in ledger "+string(r.Ledger.Or())
	case Somewhere:
		have, where = id.Grants.Somewhere(), "in any ledger"
	case Everywhere:
		have, where = id.Grants[AllLedgers], "in all ledgers"
	}
	if have&rule.Roles == 0 {
		return ledger.Errorf(ledger.CodePermissionDenied, "%s may not call %s: it takes a role %s: %s", id.Name, nameOf(r.Method), where, rule.Roles)
	}
	if r.Balances && have&rule.Balances == 0 {
		return ledger.Errorf(ledger.CodePermissionDenied, "%s may not ask for balances: it takes a role %s: %s", id.Name, where, rule.Balances)
	}
	return nil
}

// nameOf is what people call a gRPC method.
func nameOf(method string) string { return method[strings.LastIndexByte(method, '/')+1:] }

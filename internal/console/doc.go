// Package console serves pages for people. It is an adapter: what a page shows and does goes through the same doors that everybody
// else uses, and it knows nothing of the database.
//
// The pay page is the first of them. It is a client of the payment API like any phone: all that it does to money is done by the JavaScript
// of ledger/payclient/js, in the browser, over /v1. The server side renders it in a language and serves its files, and in a sandbox it plays a
// bad network.
//
// The console, below /console/, is for those who keep the books and for those who help customers: reports, accounts, statements, periods, what banks
// say against the books (bank*.go, item*.go, decisions.go, worklist.go, profiles.go), and the support desk (support.go, refund*.go, limits.go, review.go,
// suspects.go, audit.go). It is rendered on the server, without any JavaScript. Each of its pages and actions is a route of the policy in package auth;
// visit is one request of one of them, by somebody who is known and may be there by the time the page's own code runs. audited.go says whose looking is
// written down before a page is shown.
package console

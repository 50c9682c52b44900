// Package auth says who is calling and what they may do. It owns the tables of tokens and of the console's sessions.
//
// Who: a service shows a token (khata_…, of which the database has only the hash) or a client certificate; a user shows a JWT of the
// identity provider's. Authenticator makes an Identity of either. A person at the console shows a session, which Sessions makes of a token, and whose
// token is looked at again at each request.
//
// What: Policy is the one table of everything that can be called, over gRPC and HTTP, and of who may call it. What is not in it
// nobody may call. The adapters look their methods up in it and decide nothing by themselves.
//
// A caller who has no role in a ledger is told the same whether it exists or not, since nothing has been looked up by then.
package auth

// Package devidp is the identity provider of a sandbox: OpenID Connect as a real one speaks it, and it believes whoever comes to be whom they
// pick. It is for one machine, and for tests.
package devidp

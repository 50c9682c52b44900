package payapi

import (
	"net/http"
	"strings"

	"github.com/khata-ledger/khata/ledger"
)

// sandboxToken begins the tokens that Sandbox believes.
const sandboxToken = "sandbox-"

// Sandbox tells who calls by a token that anybody can make up: "sandbox-shimul" is Shimul, whose wallet is wallet:shimul and whatever
// begins with "wallet:shimul:"; "sandbox-support" may look at everything. It is for trying things out on one machine.
func Sandbox(r *http.Request) (Principal, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "+sandboxToken)
	if !ok || token == "" || strings.ContainsAny(token, ": \t") {
		return Principal{}, ledger.Errorf(ledger.CodeUnauthenticated, "send Authorization: Bearer %sNAME, such as %sshimul", sandboxToken, sandboxToken)
	}
	own := walletPrefix + token
	return Principal{
		Name:    "user:" + token,
		Support: token == "support",
		Owns:    func(id ledger.AccountID) bool { return string(id) == own || strings.HasPrefix(string(id), own+":") },
	}, nil
}

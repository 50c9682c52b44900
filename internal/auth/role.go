package auth

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/khata-ledger/khata/ledger"
)

// Roles is a set of roles.
type Roles uint8

// The roles. A caller has them ledger by ledger.
const (
	// Poster moves money, and makes the accounts that it moves it between.
	Poster Roles = 1 << iota
	// Reader reads.
	Reader
	// Finance reads, issues statements and closes periods.
	Finance
	// Support reads, and asks for refunds at the support desk.
	Support
	// Approver reads, and decides about refunds that others ask for.
	Approver
	// Admin reads, makes ledgers, currencies and accounts, changes accounts, and reopens periods. It moves no money.
	Admin

	// Reading is the roles that see what is in the books.
	Reading = Reader | Finance | Support | Approver | Admin
	// Reporting is the roles that see reports.
	Reporting = Reader | Finance | Admin
	// AnyRole is every role.
	AnyRole = Poster | Reading
)

var roleNames = []string{"poster", "reader", "finance", "support", "approver", "admin"}

// RoleNames gives the names of all roles.
func RoleNames() []string { return slices.Clone(roleNames) }

// ParseRole gives the role of a name.
func ParseRole(name string) (Roles, error) {
	i := slices.Index(roleNames, name)
	if i < 0 {
		return 0, fmt.Errorf("role %q: want one of %s", name, strings.Join(roleNames, ", "))
	}
	return 1 << i, nil
}

// Names gives the names of the roles in the set.
func (r Roles) Names() []string {
	var names []string
	for i, name := range roleNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

func (r Roles) String() string { return strings.Join(r.Names(), ", ") }

// AllLedgers stands for every ledger in a grant, also for those that are yet to be made.
const AllLedgers = "*"

// Grants has the roles of a caller by ledger, or AllLedgers.
type Grants map[ledger.Name]Roles

// ParseGrants reads grants of the form LEDGER:ROLE, of which there is at least one.
func ParseGrants(list []string) (Grants, error) {
	if len(list) == 0 {
		return nil, errors.New("a token without a role in any ledger would let nobody do anything")
	}
	grants := Grants{}
	for _, text := range list {
		name, role, _ := strings.Cut(text, ":")
		r, err := ParseRole(role)
		if err != nil {
			return nil, fmt.Errorf("grant %q (want LEDGER:ROLE): %w", text, err)
		}
		if name != AllLedgers {
			if err := ledger.Name(name).Validate("ledger"); err != nil {
				return nil, fmt.Errorf("grant %q (want LEDGER:ROLE): %w", text, err)
			}
		}
		grants[ledger.Name(name)] |= r
	}
	return grants, nil
}

// List is the reverse of ParseGrants, in a fixed order.
func (g Grants) List() []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(g)) {
		for _, role := range g[name].Names() {
			list = append(list, string(name)+":"+role)
		}
	}
	return list
}

// On gives the roles in one ledger.
func (g Grants) On(name ledger.Name) Roles { return g[name.Or()] | g[AllLedgers] }

// Somewhere gives the roles that there are in any ledger.
func (g Grants) Somewhere() Roles {
	var all Roles
	for _, roles := range g {
		all |= roles
	}
	return all
}

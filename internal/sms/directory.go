package sms

import (
	"context"
	"fmt"

	"github.com/khata-ledger/khata/internal/dbsqlc"
)

// place is an account of a ledger.
type place struct{ ledger, account string }

// recipient is an account as the directory has it.
type recipient struct {
	place
	preferences
	// name is as it can be shown; empty where it has none.
	name    string
	version int64
}

// newRecipient makes one of what is known of an account.
func newRecipient(at place, name, metadata string, version int64) recipient {
	return recipient{place: at, preferences: readPreferences(metadata), name: cleanName(name), version: version}
}

// shown is what others are told that the account is called.
func (r recipient) shown() string {
	if r.name != "" {
		return r.name
	}
	return nameOf(r.account)
}

var queries = dbsqlc.New()

// putRecipients brings the directory up to date. A row that is newer stays; of an account that is twice in the list the newer one is taken.
func putRecipients(ctx context.Context, db dbsqlc.DBTX, list []recipient) error {
	newest := make(map[place]int, len(list))
	for i, r := range list {
		if j, twice := newest[r.place]; !twice || list[j].version < r.version {
			newest[r.place] = i
		}
	}
	if len(newest) == 0 {
		return nil
	}
	var args dbsqlc.SMSRecipientPutParams
	for i, r := range list {
		if newest[r.place] != i {
			continue
		}
		args.Ledgers, args.Accounts = append(args.Ledgers, r.ledger), append(args.Accounts, r.account)
		args.Names, args.Phones = append(args.Names, r.name), append(args.Phones, r.phone)
		args.Languages, args.Wants = append(args.Languages, string(r.language)), append(args.Wants, string(r.setting))
		args.Versions = append(args.Versions, r.version)
	}
	if err := queries.SMSRecipientPut(ctx, db, args); err != nil {
		return fmt.Errorf("write the directory: %w", err)
	}
	return nil
}

// findRecipients looks accounts up. Those that the directory does not have are not in the map.
func findRecipients(ctx context.Context, db dbsqlc.DBTX, places map[place]bool) (map[place]recipient, error) {
	var args dbsqlc.SMSRecipientsParams
	for at := range places {
		args.Ledgers, args.Accounts = append(args.Ledgers, at.ledger), append(args.Accounts, at.account)
	}
	rows, err := queries.SMSRecipients(ctx, db, args)
	if err != nil {
		return nil, fmt.Errorf("read the directory: %w", err)
	}
	found := make(map[place]recipient, len(rows))
	for _, row := range rows {
		at := place{row.Ledger, row.Account}
		found[at] = recipient{
			place: at, name: row.Name,
			preferences: preferences{phone: row.Phone, language: Language(row.Language), setting: setting(row.Wants)},
		}
	}
	return found, nil
}

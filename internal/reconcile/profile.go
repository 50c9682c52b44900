package reconcile

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// StoredProfile is a profile by which CSV files are read, in one of its versions.
type StoredProfile struct {
	bankfile.Profile
	Version int
	SavedAt time.Time
	SavedBy string
}

// SaveProfile keeps a profile under its name: as another version, if it is not the last one again. It returns CodeInvalidArgument.
func (r *Reconciler) SaveProfile(ctx context.Context, name ledger.Name, profile bankfile.Profile, caller string) (StoredProfile, error) {
	if err := validateSlug("name", profile.Name); err != nil {
		return StoredProfile{}, err
	}
	if err := profile.Validate(); err != nil {
		return StoredProfile{}, ledger.Invalid("profile", "%v", err)
	}
	content, err := json.Marshal(profile)
	if err != nil {
		return StoredProfile{}, ledger.Invalid("profile", "%v", err)
	}
	if err := r.knownLedger(ctx, name); err != nil {
		return StoredProfile{}, err
	}
	saved := StoredProfile{Profile: profile, SavedBy: caller}
	err = r.change(ctx, "save the profile", func(tx pgx.Tx) error {
		last, err := r.sql.BankProfileLast(ctx, tx, dbsqlc.BankProfileLastParams{Ledger: string(name.Or()), Name: profile.Name})
		if err != nil {
			return err
		}
		saved.Version = 1
		if len(last) > 0 {
			if last[0].Content == string(content) {
				saved, err = storedProfile(dbsqlc.BankProfileListRow{
					Name: last[0].Name, Version: last[0].Version, Content: last[0].Content, SavedAt: last[0].SavedAt, SavedBy: last[0].SavedBy,
				})
				return err
			}
			saved.Version = int(last[0].Version) + 1
		}
		saved.SavedAt, err = r.sql.BankProfileInsert(ctx, tx, dbsqlc.BankProfileInsertParams{
			Ledger: string(name.Or()), Name: profile.Name, Version: int32(saved.Version), //nolint:gosec // as often as people change it
			Content: string(content), Caller: caller,
		})
		return err
	})
	saved.SavedAt = saved.SavedAt.UTC()
	return saved, err
}

// knownProfile returns CodeNotFound for a profile that there is not; "" is none.
func (r *Reconciler) knownProfile(ctx context.Context, name ledger.Name, profile string) error {
	if profile == "" {
		return nil
	}
	_, err := r.Profile(ctx, name, profile, 0)
	return err
}

// Profile gives a profile in one of its versions; 0 is the last one. It returns CodeInvalidArgument or CodeNotFound.
func (r *Reconciler) Profile(ctx context.Context, name ledger.Name, profile string, version int) (StoredProfile, error) {
	if err := validateSlug("profile", profile); err != nil {
		return StoredProfile{}, err
	}
	rows, err := r.sql.BankProfileLast(ctx, r.pool, dbsqlc.BankProfileLastParams{
		Ledger: string(name.Or()), Name: profile, Version: int32(version), //nolint:gosec // another number finds nothing
	})
	switch {
	case err != nil:
		return StoredProfile{}, public(ctx, "read the profile", err)
	case len(rows) == 0:
		if err := r.knownLedger(ctx, name); err != nil {
			return StoredProfile{}, err
		}
		if version == 0 {
			return StoredProfile{}, ledger.Missing("profile", "ledger %s has no profile %s", name.Or(), profile)
		}
		last, err := r.Profile(ctx, name, profile, 0)
		if err != nil {
			return StoredProfile{}, err
		}
		return StoredProfile{}, ledger.Missing("profile", "profile %s has no version %d: the last is %d", profile, version, last.Version)
	}
	row := rows[0]
	return storedProfile(dbsqlc.BankProfileListRow{
		Name: row.Name, Version: row.Version, Content: row.Content, SavedAt: row.SavedAt, SavedBy: row.SavedBy,
	})
}

// Profiles lists the last version of each profile, by name.
func (r *Reconciler) Profiles(ctx context.Context, name ledger.Name) ([]StoredProfile, error) {
	rows, err := r.sql.BankProfileList(ctx, r.pool, string(name.Or()))
	if err != nil {
		return nil, public(ctx, "list the profiles", err)
	}
	if len(rows) == 0 {
		return nil, r.knownLedger(ctx, name)
	}
	list := make([]StoredProfile, len(rows))
	for i, row := range rows {
		if list[i], err = storedProfile(row); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func storedProfile(row dbsqlc.BankProfileListRow) (StoredProfile, error) {
	profile, err := bankfile.ParseProfile([]byte(row.Content))
	if err != nil {
		return StoredProfile{}, ledger.Errorf(ledger.CodeInternal, "profile %s cannot be read: %v", row.Name, err)
	}
	return StoredProfile{*profile, int(row.Version), row.SavedAt.UTC(), row.SavedBy}, nil
}

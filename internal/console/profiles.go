package console

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

const (
	profilesRoute    = "GET /console/{ledger}/reconcile/profiles"
	profileRoute     = "GET /console/{ledger}/reconcile/profiles/{profile}"
	saveProfileRoute = "POST /console/{ledger}/reconcile/profiles"
	previewRoute     = "POST /console/{ledger}/reconcile/profiles/preview"
	// previewed is how many lines of a sample are shown, and fieldsShown how many of their fields.
	previewed, fieldsShown = 30, 40
)

// sampleProfile is what the form has in it at first.
const sampleProfile = `{
  "name": "my-bank",
  "delimiter": ";",
  "decimal_mark": ",",
  "date_formats": ["DD.MM.YYYY"],
  "header": true,
  "currency": "EUR",
  "columns": {
    "booking_date": "Date",
    "amount": "Amount",
    "description": ["Text"]
  }
}`

// profileRow is a profile in a list.
type profileRow struct {
	reconcile.StoredProfile
	Path, At string
}

// previewRow is a line of a sample, and what it is by the profile.
type previewRow struct {
	bankfile.PreviewLine
	KindName string
	Wrong    string
	More     int
	Amount   money
}

// profilesMain is what the page of profiles shows.
type profilesMain struct {
	Rows []profileRow
	// Profile is the one that the page is about; nil: all of them.
	Profile *profileRow
	JSON    string
	Edit    *form
	Preview string
	// Lines are what a sample is read as, and Broken why the rest cannot be read.
	Previewed bool
	FileName  string
	Lines     []previewRow
	Broken    string
	Said      string
	All       string
}

func (v *visit) profiles() error {
	return v.showProfiles(http.StatusOK, sampleProfile, nil, nil)
}

// showProfiles shows the profiles, and the form with a text in it.
func (v *visit) showProfiles(status int, text string, preview func(*profilesMain), refused error) error {
	if v.config.Reconciler == nil {
		return errNotFound
	}
	list, err := v.config.Reconciler.Profiles(v.r.Context(), v.ledger)
	if err != nil {
		return err
	}
	main := &profilesMain{}
	for _, p := range list {
		main.Rows = append(main.Rows, v.profileRow(p))
	}
	return v.renderProfiles(status, "Profiles", main, text, preview, refused)
}

func (v *visit) renderProfiles(status int, title string, main *profilesMain, text string, preview func(*profilesMain), refused error) error {
	main.All = v.path("reconcile/profiles", nil)
	if v.may(saveProfileRoute) {
		main.Edit, main.Preview = v.profileForm(text), v.path("reconcile/profiles/preview", nil)
	}
	if preview != nil {
		preview(main)
	}
	if refused != nil && (main.Edit == nil || !main.Edit.blame(refused)) {
		return refused
	}
	return v.render(status, page{Name: "profiles", Title: title, Section: reconcileRoute, Within: true, Wide: true, Main: main})
}

func (v *visit) profileRow(p reconcile.StoredProfile) profileRow {
	return profileRow{p, v.path("reconcile/profiles/"+url.PathEscape(p.Name), nil), momentText(p.SavedAt, v.location(values{}))}
}

func (v *visit) profileForm(text string) *form {
	return &form{ID: "profile-", Action: v.path("reconcile/profiles", nil), Button: "Save the profile", Fields: []field{
		{Name: "profile", Label: "Profile, as JSON", Help: "its name is in it; saved again under the same name it is another version", Kind: "area", Rows: 20,
			Value: text},
		{Name: "file", Label: "A sample of the bank’s CSV", Help: "only to preview: nothing of it is kept", Kind: "file"},
	}}
}

func (v *visit) profile() error {
	if v.config.Reconciler == nil {
		return errNotFound
	}
	q := values(v.r.URL.Query())
	version, err := q.number("version")
	if err != nil {
		return err
	}
	p, err := v.config.Reconciler.Profile(v.r.Context(), v.ledger, v.r.PathValue("profile"), int(min(version, 1<<30)))
	if err != nil {
		return absent(err, "profile")
	}
	row := v.profileRow(p)
	text, err := json.MarshalIndent(p.Profile, "", "  ")
	if err != nil {
		return err
	}
	main := &profilesMain{Profile: &row, JSON: string(text), Said: q.get("done")}
	return v.renderProfiles(http.StatusOK, "Profile "+p.Name, main, string(text), nil, nil)
}

// profileOf reads a profile. It returns CodeInvalidArgument.
func profileOf(text string) (*bankfile.Profile, error) {
	if strings.TrimSpace(text) == "" {
		return nil, ledger.Invalid("profile", "is empty")
	}
	p, err := bankfile.ParseProfile([]byte(text))
	if err != nil {
		return nil, ledger.Invalid("profile", "%s", shortened(err.Error()))
	}
	return p, nil
}

// shortened is a text that may repeat what somebody has sent, of a length to show.
func shortened(text string) string {
	const most = 400
	text = strings.ToValidUTF8(text, "\ufffd")
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

func (v *visit) saveProfile() error {
	if v.config.Reconciler == nil {
		return errNotFound
	}
	text := values(v.r.PostForm).get("profile")
	p, err := profileOf(text)
	var saved reconcile.StoredProfile
	if err == nil {
		saved, err = v.config.Reconciler.SaveProfile(v.r.Context(), v.ledger, *p, v.session.Name)
		err = renamed(err, "name", "profile")
	}
	if err != nil {
		return v.showProfiles(refusedStatus(err), text, nil, err)
	}
	return v.see(v.path("reconcile/profiles/"+url.PathEscape(saved.Name), url.Values{"done": {"saved"}}))
}

// previewProfile shows how the first lines of a sample are read. Nothing is kept.
func (v *visit) previewProfile() error {
	text := v.upload.fields.get("profile")
	p, err := profileOf(text)
	var lines []bankfile.PreviewLine
	if err == nil {
		err = v.takeFile(func(file io.Reader) (err error) {
			lines, err = bankfile.Preview(v.r.Context(), file, *p, bankfile.Limits{Bytes: maxUpload}, previewed)
			return err
		})
	}
	var refusal *bankfile.Refusal
	switch {
	case err == nil, errors.As(err, &refusal): // What makes the rest unreadable is shown with the lines before it.
	case ledger.CodeOf(err) == ledger.CodeInvalidArgument:
		return v.showProfiles(http.StatusBadRequest, text, nil, err)
	default:
		return err
	}
	return v.showProfiles(http.StatusOK, text, func(main *profilesMain) {
		main.Previewed, main.FileName = true, v.upload.name
		if refusal != nil {
			main.Broken = shortened(refusal.Error())
		}
		for _, line := range lines {
			main.Lines = append(main.Lines, previewOf(line))
		}
	}, nil)
}

var rowKindNames = map[bankfile.RowKind]string{
	bankfile.RowSkipped: "left out", bankfile.RowHeader: "names of the columns", bankfile.RowLine: "line", bankfile.RowFooter: "left out, at the end",
}

func previewOf(line bankfile.PreviewLine) previewRow {
	row := previewRow{PreviewLine: line, KindName: rowKindNames[line.Kind]}
	if len(row.Fields) > fieldsShown {
		row.More, row.Fields = len(row.Fields)-fieldsShown, row.Fields[:fieldsShown]
	}
	for i, field := range row.Fields {
		row.Fields[i] = shortened(field)
	}
	if line.Err != nil {
		row.Wrong = shortened(line.Err.Error())
	}
	if line.Line != nil {
		text := line.Line.Amount.String()
		if c, ok := ledger.ISOCurrency(ledger.CurrencyCode(line.Line.Currency)); ok {
			text = sheet.AmountCell(line.Line.Amount, c.Scale)
		}
		row.Amount = amountOf(text)
	}
	return row
}

// Place is where the line begins.
func (r previewRow) Place() string { return strconv.Itoa(r.Position) }

package console

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/ledger"
)

const (
	uploadRoute   = "POST /console/{ledger}/reconcile/bank/{bank}/files"
	bankFileRoute = "GET /console/{ledger}/reconcile/bank/{bank}/files/{no}"
	// linesShown is how many lines of a file a page lists.
	linesShown = 200
)

// checkView is a check of a file.
type checkView struct {
	bankfile.Check
	// Of says what it is of, if that is not the file, and Word how it came out.
	Of, Word string
}

var checkWords = map[bankfile.CheckState]string{bankfile.CheckHeld: "holds", bankfile.CheckFailed: "does not hold", bankfile.CheckNotMade: "not made"}

// checkTitles are what the checks look at.
var checkTitles = map[bankfile.CheckName]string{
	bankfile.CheckTotals: "opening balance and lines make the closing balance", bankfile.CheckRunning: "the balances beside the lines add up",
	bankfile.CheckControl: "the control total is that of the lines", bankfile.CheckCount: "there are as many records as the file says",
	bankfile.CheckSummary: "the bank’s own totals are those of the lines", bankfile.CheckNet: "gross less fee is net",
	bankfile.CheckDetails: "the details of batches make their lines", bankfile.CheckChain: "it goes on where the statement before it ended",
	bankfile.CheckScale: "no amount is finer than its currency",
}

// Title is what the check looks at.
func (c checkView) Title() string {
	if title := checkTitles[c.Name]; title != "" {
		return title
	}
	return string(c.Name)
}

func checksOf(list []bankfile.Check, of string) []checkView {
	var views []checkView
	for _, c := range list {
		views = append(views, checkView{c, of, checkWords[c.State]})
	}
	return views
}

// statementOfFile is a statement of a file.
type statementOfFile struct {
	Title, From, To, AddedText, LinesText string
	Opening, Closing, Balance             money
	HasOpening, HasClosing                bool
	Flags                                 []bankfile.Flag
}

// fileView is a file as a page shows it.
type fileView struct {
	fileRow
	Checks     []checkView
	Statements []statementOfFile
}

// fileMain is what the page of a file shows.
type fileMain struct {
	bankHead
	bank
	// Files are what it was kept as, or would be.
	Files []fileView
	// Refusal is why it was refused, and Reason that in words.
	Refusal *bankfile.Refusal
	Reason  string
	Checks  []checkView
	Name    string
	// Tried is whether nothing was imported, since that was asked for.
	Tried    bool
	Replayed bool
	Upload   *form
	Lines    []itemView
	More     string
	Said     string
	Match    string
}

// reasons say in words why a file is refused.
var reasons = map[bankfile.Reason]string{
	bankfile.ReasonNotThisFormat: "It is not in a format that is read here.", bankfile.ReasonUnsupported: "It is of a kind that is not read here.",
	bankfile.ReasonEmpty: "There is no statement in it.", bankfile.ReasonMalformed: "It breaks the rules of its format, or the profile does not fit it.",
	bankfile.ReasonTotals: "Opening balance and lines do not make the closing balance.", bankfile.ReasonRunning: "The balances beside the lines do not add up.",
	bankfile.ReasonControl: "A control total is not that of the lines.", bankfile.ReasonCount: "There are more or fewer records than it says.",
	bankfile.ReasonChain: "Its statements do not follow each other.", bankfile.ReasonCurrency: "It is in another currency.",
	bankfile.ReasonScale: "An amount is finer than its currency.", bankfile.ReasonTooLarge: "It is too large.",
	reconcile.ReasonAccount: "It is of another account.", reconcile.ReasonGap: "Something is missing between the last statement and this one.",
	reconcile.ReasonRepeated: "Its statement was imported before, from another file.",
	reconcile.ReasonOverlap:  "It covers days that are known, and says something else of them.",
	reconcile.ReasonTooEarly: "It is older than the first statement.",
}

// uploadForm is the form to import a file, with what was asked.
func (v *visit) uploadForm(b bank, q values) (*form, error) {
	f := &form{ID: "file-", Action: v.bankPath(b, "files", nil), Button: "Import the file"}
	profiles, err := v.config.Reconciler.Profiles(v.r.Context(), v.ledger)
	if err != nil {
		return nil, err
	}
	if len(profiles) > 0 {
		chosen := q.get("profile")
		own := "that of the settings"
		if b.Settings.Profile == "" {
			own = "none"
		}
		options := []option{{"", own, chosen == ""}}
		for _, p := range profiles {
			options = append(options, option{p.Name, p.Name, p.Name == chosen})
		}
		f.Fields = append(f.Fields, field{Name: "profile", Label: "Profile, if it is CSV", Kind: "choice", Options: options})
	}
	f.Fields = append(f.Fields,
		field{Name: "dry_run", Label: "Only look what would become of it", Kind: "tick", Checked: q.get("dry_run") != ""},
		// The last, since all before it is read first.
		field{Name: "file", Label: "The bank’s file", Help: "CSV, camt.053, MT940, BAI2, OFX, Stripe or a zip of these; at most 64 MiB", Kind: "file"})
	return f, nil
}

// importFile imports a file, as it arrives.
func (v *visit) importFile() error {
	b, err := v.bank()
	if err != nil {
		return err
	}
	q := v.upload.fields
	dry := q.get("dry_run") != ""
	// A file may take longer to arrive than a page to be made.
	ctx, cancel := context.WithTimeout(v.whole, uploadPatience)
	defer cancel()
	var done *reconcile.Import
	err = v.takeFile(func(file io.Reader) (err error) {
		done, err = v.config.Reconciler.Import(ctx, reconcile.ImportSpec{
			Ledger: v.ledger, BankAccount: b.Name, FileName: v.upload.name, Profile: q.get("profile"), DryRun: dry,
		}, file, v.session.Name)
		return err
	})
	var refused *reconcile.RefusedFile
	switch {
	case errors.As(err, &refused):
		return v.showRefused(b, refused)
	case isAbsent(err): // The form names a profile that is not there, or there is something else wrong with it.
		return v.showBank(statusOf(ledger.CodeOf(err)), b, func(main *bankMain, err error) bool { return main.Upload.blame(err) }, err)
	case err != nil:
		return err
	case dry:
		return v.showTried(b, done)
	}
	said := url.Values{"done": {"imported"}}
	if done.Replayed {
		said.Set("done", "again")
	}
	if len(done.Files) != 1 {
		return v.see(v.bankPath(b, "", said))
	}
	return v.see(v.bankPath(b, "files/"+strconv.FormatInt(done.Files[0].No, 10), said))
}

// showRefused shows why a file was refused, for somebody to see what is wrong with it.
func (v *visit) showRefused(b bank, refused *reconcile.RefusedFile) error {
	upload, err := v.uploadForm(b, v.upload.fields)
	if err != nil {
		return err
	}
	main := &fileMain{
		bankHead: v.bankHead(b, "-"), bank: b, Refusal: &refused.Refusal, Reason: reasons[refused.Reason], Name: v.upload.name, Upload: upload,
	}
	if f := refused.File; f != nil {
		main.Checks = checksOf(f.Checks, "")
		for i, s := range f.Statements {
			of := "statement " + strconv.Itoa(i+1)
			if s.Member != "" {
				of += " of " + s.Member
			}
			main.Checks = append(main.Checks, checksOf(s.Checks, of)...)
		}
		if len(main.Checks) > maxShown {
			main.Checks = main.Checks[:maxShown]
		}
	}
	return v.render(http.StatusBadRequest, page{
		Name: "bankfile", Title: "The file is refused", Section: reconcileRoute, Within: true, Wide: true, Main: main,
	})
}

// showTried shows what would become of a file.
func (v *visit) showTried(b bank, done *reconcile.Import) error {
	upload, err := v.uploadForm(b, values{"profile": v.upload.fields["profile"]})
	if err != nil {
		return err
	}
	main := &fileMain{bankHead: v.bankHead(b, "-"), bank: b, Name: v.upload.name, Tried: true, Replayed: done.Replayed, Upload: upload}
	for _, f := range done.Files[:min(len(done.Files), linesShown)] {
		main.Files = append(main.Files, v.fileView(b, f))
	}
	return v.render(http.StatusOK, page{
		Name: "bankfile", Title: "What would become of it", Section: reconcileRoute, Within: true, Wide: true, Main: main,
	})
}

func (v *visit) fileView(b bank, f reconcile.File) fileView {
	view := fileView{fileRow: v.fileRow(b, f), Checks: checksOf(f.Checks, "")}
	for i, s := range f.Statements {
		if i == linesShown {
			break
		}
		row := statementOfFile{
			Title: s.Number, From: s.From.String(), To: s.To.String(), Balance: b.money(s.Balance), LinesText: grouped(strconv.Itoa(s.Lines)),
			AddedText: grouped(strconv.Itoa(s.Added)), HasOpening: s.Opening != nil, HasClosing: s.Closing != nil, Flags: s.Flags,
		}
		if row.Title == "" {
			row.Title = s.ID
		}
		if s.Opening != nil {
			row.Opening = b.money(*s.Opening)
		}
		if s.Closing != nil {
			row.Closing = b.money(*s.Closing)
		}
		of := ""
		if len(f.Statements) > 1 {
			of = "statement " + strconv.Itoa(s.Ordinal)
		}
		view.Checks = append(view.Checks, checksOf(s.Checks, of)...)
		view.Statements = append(view.Statements, row)
	}
	return view
}

func (v *visit) bankFile() error {
	b, err := v.bank()
	if err != nil {
		return err
	}
	no, err := v.number("no")
	if err != nil {
		return err
	}
	q := values(v.r.URL.Query())
	after, err := q.number("after")
	if err != nil {
		return err
	}
	f, err := v.config.Reconciler.File(v.r.Context(), v.ledger, b.Name, no)
	if err != nil {
		return absent(err, "file")
	}
	main := &fileMain{bankHead: v.bankHead(b, "-"), bank: b, Files: []fileView{v.fileView(b, *f)}, Name: f.Name, Said: q.get("done")}
	lines, more, err := v.config.Reconciler.Lines(v.r.Context(), v.ledger, b.Name, reconcile.LineFilter{File: no, After: after, Limit: linesShown})
	if err != nil {
		return err
	}
	for _, l := range lines {
		main.Lines = append(main.Lines, v.lineView(b, l))
	}
	if more {
		main.More = v.bankPath(b, "files/"+strconv.FormatInt(no, 10), url.Values{"after": {strconv.FormatInt(lines[len(lines)-1].No, 10)}})
	}
	if v.may(matchRoute) {
		main.Match = v.bankPath(b, "", nil)
	}
	return v.render(http.StatusOK, page{
		Name: "bankfile", Title: "File " + strconv.FormatInt(no, 10), Section: reconcileRoute, Within: true, Wide: true, Main: main,
	})
}

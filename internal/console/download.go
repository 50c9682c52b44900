package console

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/khata-ledger/khata/internal/export"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

const (
	// downloadPatience is how long a file may take, and writePatience how long the visitor may take for a part of it.
	downloadPatience, writePatience = 15 * time.Minute, 30 * time.Second
)

// fileFormat reads the format of a file. It returns CodeInvalidArgument.
func fileFormat(text string) (export.Format, error) {
	f, err := export.ParseFormat(text)
	if err == nil && f == export.Table {
		err = ledger.Invalid("format", "is csv, xlsx or json")
	}
	return f, err
}

// download sends a report as a file.
func (v *visit) download(request report.Request, format string) error {
	f, err := fileFormat(format)
	if err != nil {
		return err
	}
	return v.attach(f, func(ctx context.Context, w sheet.Writer) error { return v.config.Reports.Run(ctx, request, w) })
}

// attach sends a sheet as a file. A file that breaks off ends in a broken connection, so that nobody takes it for the whole.
func (v *visit) attach(f export.Format, write func(context.Context, sheet.Writer) error) error {
	ctx, cancel := context.WithTimeout(v.whole, downloadPatience)
	defer cancel()
	// Until its first part the file may take as long as it may at all.
	_ = http.NewResponseController(v.w).SetWriteDeadline(time.Now().Add(downloadPatience))
	file := &attachment{visit: v, format: f}
	file.Writer = export.New(f, file)
	if closer, ok := file.Writer.(io.Closer); ok {
		defer closer.Close()
	}
	err := write(ctx, file)
	if err == nil || !file.started {
		return err
	}
	v.config.Logger.Error("a file broke off", "route", v.route, "ledger", v.ledger, "file", file.name, "error", err)
	panic(http.ErrAbortHandler)
}

// attachment is a file on its way. It takes the sheet, whose head names the file, and the bytes that the format makes of it.
type attachment struct {
	sheet.Writer
	*visit
	format  export.Format
	name    string
	started bool
	patient time.Time
}

// Begin names the file.
func (a *attachment) Begin(head sheet.Head) error {
	a.name = export.FileName(head, a.format)
	return a.Writer.Begin(head)
}

// Write sends a part, and before the first one the headers: an error before that is a page.
func (a *attachment) Write(part []byte) (int, error) {
	if !a.started {
		a.started = true
		a.announce(a.name, a.format.ContentType())
	}
	if now := time.Now(); now.Sub(a.patient) > time.Second {
		a.patient = now
		_ = http.NewResponseController(a.w).SetWriteDeadline(now.Add(writePatience)) // Where there is none to set, the server has its own.
	}
	return a.w.Write(part)
}

// announce sets the headers of a file.
func (v *visit) announce(name, contentType string) {
	h := v.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Disposition", `attachment; filename="`+plainFileName(name)+`"`)
}

// plainFileName leaves of a name what no header and no disk can take amiss.
func plainFileName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		}
		return '-'
	}, name)
	if name = strings.TrimLeft(name, "."); name == "" {
		return "khata"
	}
	return name
}

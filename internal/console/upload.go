package console

import (
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/khata-ledger/khata/ledger"
)

const (
	// maxUpload is the most bytes of a file. A bank's file of 100,000 lines has some 20 MB.
	maxUpload = 64 << 20
	// maxUploadFields is the most bytes of all that comes with a file, and maxUploadParts how many fields that is at most.
	maxUploadFields, maxUploadParts = 128 << 10, 20
	// uploadStall is how long a file may not come on, and uploadPatience how long it may take at all, with what is done with it.
	uploadStall, uploadPatience = 20 * time.Second, 5 * time.Minute
	// drainPatience is how long a file is read over that was refused before its end: a browser shows no answer before it has sent all of it.
	drainPatience = 10 * time.Second
)

// takesFile are the routes whose forms have a file.
var takesFile = map[string]bool{uploadRoute: true, previewRoute: true}

// upload is a form with a file. The key of the form comes first, and nothing else is read before it is known to be right; the file comes last, and is
// read as it arrives, so it is never wholly in memory.
type upload struct {
	fields values
	name   string
	file   io.Reader // nil: none was chosen
}

// errTooLarge is an error of reading a file that is too large.
var errTooLarge = errors.New("the file is too large")

// arriving is the body of an upload. It gives up where nothing comes, where it takes too long, and where there is too much.
type arriving struct {
	io.Reader
	control *http.ResponseController
	left    int64
	end     time.Time
	next    time.Time
}

func (a *arriving) Read(p []byte) (int, error) {
	now := time.Now()
	if a.left <= 0 {
		return 0, errTooLarge
	}
	if now.After(a.end) {
		return 0, fmt.Errorf("it takes longer than %s", uploadPatience)
	}
	if now.After(a.next) {
		a.next = now.Add(time.Second)
		_ = a.control.SetReadDeadline(now.Add(uploadStall)) // Where there is none to set, the server has its own.
	}
	n, err := a.Reader.Read(p[:min(int64(len(p)), a.left)])
	a.left -= int64(n)
	return n, err
}

func (a *arriving) Close() error { return nil }

// openUpload reads what comes before the file, which must be a form of the session's.
func (v *visit) openUpload() error {
	v.r.Body = &arriving{
		Reader: v.r.Body, control: http.NewResponseController(v.w), left: maxUpload + maxUploadFields, end: time.Now().Add(uploadPatience),
	}
	parts, err := v.r.MultipartReader()
	if err != nil {
		return errorPage{Status: http.StatusUnsupportedMediaType, Title: "This is no form of the console's", Text: "Nothing was done."}
	}
	first, err := parts.NextPart()
	if err != nil {
		return interrupted(err)
	}
	key, err := io.ReadAll(io.LimitReader(first, 256))
	if err != nil {
		return interrupted(err)
	}
	if first.FormName() != formKeyField || !v.session.IsFormKey(string(key)) {
		return errForeignForm
	}
	v.upload = &upload{fields: values{}}
	return v.upload.readFields(parts)
}

// readFields reads the fields before the file.
func (u *upload) readFields(parts *multipart.Reader) error {
	left := maxUploadFields
	for range maxUploadParts {
		part, err := parts.NextPart()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return interrupted(err)
		case part.FormName() == "file":
			if part.FileName() != "" {
				u.name, u.file = fileName(part.FileName()), part
			}
			return nil
		}
		text, err := io.ReadAll(io.LimitReader(part, int64(left)+1))
		if err != nil {
			return interrupted(err)
		}
		if left -= len(text); left < 0 {
			break
		}
		u.fields[part.FormName()] = append(u.fields[part.FormName()], string(text))
	}
	return errorPage{Status: http.StatusRequestEntityTooLarge, Title: "The form is too big", Text: "Nothing was done. Go back, and send shorter texts."}
}

// interrupted is the error of a form that has not come whole.
func interrupted(err error) error {
	if errors.Is(err, errTooLarge) {
		return errorPage{
			Status: http.StatusRequestEntityTooLarge, Title: "The file is too large",
			Text:   fmt.Sprintf("It has more than %d MiB, which is the most that this page takes. Nothing was done.", maxUpload>>20),
			Advice: "Ask the bank for a shorter period.",
		}
	}
	return errorPage{
		Status: http.StatusBadRequest, Title: "The file has not arrived whole", Text: "The connection ended, or stood still, before its end. Nothing was done.",
		Advice: "Go back, and send it again.",
	}
}

// drain reads over what is left of a form, since a browser shows no answer before it has sent all of it. To who is too slow nothing is shown.
func (v *visit) drain() {
	control := http.NewResponseController(v.w)
	_ = control.SetReadDeadline(time.Now().Add(drainPatience))
	body := v.r.Body
	if a, ok := body.(*arriving); ok {
		body = io.NopCloser(a.Reader)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(body, maxUpload))
	_ = control.SetReadDeadline(time.Time{})
}

// takeFile has a file read when it is its turn. It returns what reading it has returned as a page.
func (v *visit) takeFile(read func(io.Reader) error) error {
	u := v.upload
	if u.file == nil {
		return ledger.Invalid("file", "is required: choose one")
	}
	select {
	case v.uploads <- struct{}{}:
		defer func() { <-v.uploads }()
	case <-v.r.Context().Done():
		return ledger.Errorf(ledger.CodeOverloaded, "another file is arriving, and this one's time to wait is up")
	}
	watch := &watched{Reader: u.file}
	err := read(watch)
	if watch.err != nil && err != nil {
		return interrupted(watch.err)
	}
	return err
}

// watched keeps the error of reading a file, which who reads it may have turned into words.
type watched struct {
	io.Reader
	err error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

// fileName is what a file is called, as far as that is text of a length to show.
func fileName(name string) string {
	name = strings.ReplaceAll(strings.ToValidUTF8(name, "\ufffd"), "\x00", "\ufffd")
	const most = 200
	if len(name) <= most {
		return name
	}
	for cut := most; ; cut-- {
		if utf8.RuneStart(name[cut]) {
			return name[:cut]
		}
	}
}

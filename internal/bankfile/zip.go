package bankfile

import (
	"archive/zip"
	"bufio"
	"bytes"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
)

// zip reads the members of a zip, each in its own format. They share the limits of the file. A zip cannot be read as a stream, so it is held in
// memory, packed.
func (p *parse) zip() error {
	raw, err := io.ReadAll(p.in) // bounded by the source
	if err != nil {
		return err
	}
	archive, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return malformed(0, "it is no zip that can be read: %s", err)
	}
	if len(archive.File) > p.limits.Members {
		return refusal(ReasonTooLarge, 0, "the zip has more than %d files", p.limits.Members)
	}
	if slices.ContainsFunc(archive.File, func(member *zip.File) bool { return member.Name == "[Content_Types].xml" }) {
		return refusal(ReasonNotThisFormat, 0, "the file is a document of an office program (such as .xlsx): save its sheet as CSV, or %s", askFor)
	}
	left := p.limits.Bytes
	names := map[string]bool{}
	for _, member := range archive.File {
		if isNoise(member) {
			continue
		}
		// Many programs write names in the encoding of their own country, and do not say which.
		name := clean(decodeText([]byte(member.Name)))
		if name == "" || names[name] { // What is known of a file goes by its name.
			return malformed(0, "the zip has a file without a name, or two of the name %.100q", name)
		}
		names[name] = true
		used, err := p.member(member, name, left)
		var refused *Refusal
		if errors.As(err, &refused) {
			refused.Member = name
			return refused
		}
		if err != nil {
			return err
		}
		left -= used
	}
	return nil
}

// isNoise reports whether a member is a folder, or what a Mac adds.
func isNoise(member *zip.File) bool {
	return strings.HasSuffix(member.Name, "/") || strings.HasPrefix(member.Name, "__MACOSX/") || path.Base(member.Name) == ".DS_Store"
}

const encrypted = 0x1 // flag of a member

// member reads one file, and gives how many bytes it had.
func (p *parse) member(member *zip.File, name string, left int64) (int64, error) {
	if member.Flags&encrypted != 0 {
		return 0, refusal(ReasonUnsupported, 0, "the file is encrypted")
	}
	stream, err := member.Open()
	if err != nil {
		return 0, malformed(0, "the file cannot be unpacked: %s", err)
	}
	defer stream.Close()
	// What the zip says of sizes may be wrong, so the bytes are counted as they come.
	packed := &unpacked{r: stream, packed: int64(member.CompressedSize64), ratio: p.limits.Ratio}
	o := p.o
	if o.Format == FormatZip {
		o.Format = ""
	}
	m := &parse{ctx: p.ctx, o: o, limits: p.limits, file: &File{}, lines: map[*Statement]int{}, src: newSource(p.ctx, packed, left)}
	m.limits.Statements -= len(p.file.Statements)
	m.in = bufio.NewReaderSize(m.src, sniffed)
	err = m.readMember()
	if refused := (*Refusal)(nil); errors.As(err, &refused) && refused.Statement > 0 {
		refused.Statement += len(p.file.Statements)
	}
	p.adopt(m, name)
	return left - m.src.left, err
}

// readMember reads a member in its format, and to its end.
func (p *parse) readMember() error {
	if start, _ := p.in.Peek(2); string(start) == "PK" {
		return refusal(ReasonUnsupported, 0, "a zip stands in the zip")
	}
	err := p.read()
	if err == nil {
		_, err = io.Copy(io.Discard, p.in)
	}
	return err
}

// adopt takes over what was read of a member.
func (p *parse) adopt(m *parse, name string) {
	offset := len(p.file.Statements)
	for _, s := range m.file.Statements {
		s.Member = name
	}
	p.file.Members = append(p.file.Members, Member{Name: name, Format: m.file.Format, SHA256: m.src.hex()})
	p.file.Statements = append(p.file.Statements, m.file.Statements...)
	p.file.Checks = append(p.file.Checks, m.file.Checks...)
	if r := m.refused; r != nil {
		r.Member = name
		if r.Statement > 0 {
			r.Statement += offset
		}
		p.refuse(r)
	}
}

// unpacked counts what comes out of a member, and stops when it is too much for what went in: a zip of zeros unpacks to a thousand times its size.
type unpacked struct {
	r                    io.Reader
	packed, ratio, count int64
}

func (u *unpacked) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	u.count += int64(n)
	if u.count > mebibyte && u.count/max(1, u.packed) > u.ratio {
		return 0, refusal(ReasonTooLarge, 0, "the file unpacks to more than %d times its size", u.ratio)
	}
	if err != nil && !errors.Is(err, io.EOF) { // it is in memory, so it is the content that is wrong
		return n, malformed(0, "the file cannot be unpacked: %s", err)
	}
	return n, err
}

package bankfile_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/khata-ledger/khata/internal/bankfile"
)

// benchLines is a large file: a busy account's month.
const benchLines = 100_000

func BenchmarkParse(b *testing.B) {
	s := example(benchLines)
	for _, w := range writers {
		b.Run(w.name, func(b *testing.B) { benchmark(b, w.write(s, s.Lines)) })
	}
	b.Run("zip of camt.053", func(b *testing.B) {
		benchmark(b, writtenFile{zipped(b, zipMember{"a.xml", writeCamt(8)(s, s.Lines).text}), bankfile.Options{}})
	})
}

func benchmark(b *testing.B, written writtenFile) {
	b.Helper()
	written.options.Scale = scales
	b.SetBytes(int64(len(written.text)))
	b.ReportAllocs()
	for b.Loop() {
		file, err := bankfile.Parse(context.Background(), bytes.NewReader(written.text), written.options)
		if err != nil {
			b.Fatal(err)
		}
		if n := len(file.Statements[0].Lines); n != benchLines {
			b.Fatalf("%d lines", n)
		}
	}
}

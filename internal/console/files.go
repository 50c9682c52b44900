package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/khata-ledger/khata/ledger/payclient/js"
)

//go:embed assets
var assets embed.FS

// files are scripts, styles and pictures of pages. All of them are below one hash of them all, so that modules which import each other by
// relative names are always of one version, and each can be kept for ever.
type files struct {
	// path is where they are, with a slash at its end.
	path   string
	hash   string
	byName map[string][]byte
}

// fileSet is some files, and the folder that they are shown in.
type fileSet struct {
	folder string
	from   fs.FS
}

// coreFolder is where the scripts of the pay page find those of ledger/payclient/js.
const coreFolder = "payclient/"

// loadFiles loads the files of the pay page.
func loadFiles() *files {
	own, err := fs.Sub(assets, "assets")
	if err != nil { // The name is well-formed.
		panic(err)
	}
	return newFiles("/pay/assets/", fileSet{"", own}, fileSet{coreFolder, js.Source()})
}

func newFiles(path string, sets ...fileSet) *files {
	f := &files{byName: map[string][]byte{}}
	sum := sha256.New()
	for _, set := range sets {
		f.add(set.folder, set.from, sum.Write)
	}
	f.hash = hex.EncodeToString(sum.Sum(nil))[:16]
	f.path = path + f.hash + "/"
	return f
}

// add takes in the files of a folder, in the order of their names.
func (f *files) add(prefix string, from fs.FS, hash func([]byte) (int, error)) {
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		f.byName[prefix+name] = data
		_, _ = hash([]byte(prefix + name + "\x00")) // A hash does not fail.
		_, _ = hash(data)
		return nil
	})
	if err != nil { // They are built in.
		panic(err)
	}
}

// contentTypes are those of the files that there are: what the system's table says of .js differs from one machine to another.
var contentTypes = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// ServeHTTP serves HASH/NAME. Another hash is another version, which is not here: a page whose scripts are missing pays nothing, and one
// with scripts of two versions might do anything.
func (f *files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hash, name, _ := strings.Cut(r.URL.Path, "/")
	f.serve(w, hash, name)
}

func (f *files) serve(w http.ResponseWriter, hash, name string) {
	data, ok := f.byName[name]
	if hash != f.hash || !ok {
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "there is no such file; reload the page", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", contentTypes[path.Ext(name)])
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(data) // The browser may have gone.
}

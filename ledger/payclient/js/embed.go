// Package js holds the JavaScript core of the payment API's clients, an npm-style module, so that the pay page can serve it as it is.
package js

import (
	"embed"
	"io/fs"
)

//go:embed src/*.js
var source embed.FS

// Source has the module's files, with index.js at the top.
func Source() fs.FS {
	files, err := fs.Sub(source, "src")
	if err != nil { // The name above is well-formed.
		panic(err)
	}
	return files
}

package console

// Texts are all words of the page by language and name.
func Texts() map[string]map[string]string { return texts }

// Files are the page's scripts and styles by name.
func Files() map[string]string {
	all := map[string]string{}
	for name, data := range loadFiles().byName {
		all[name] = string(data)
	}
	return all
}

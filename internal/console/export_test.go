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

// ConsoleRoutes are the routes of the console, as the policy knows them.
func ConsoleRoutes() []string {
	var list []string
	for _, route := range routes {
		list = append(list, route.pattern)
	}
	return list
}

// What a page of the console shows at most.
const (
	MaxShown = maxShown
	MaxRead  = maxRead
)

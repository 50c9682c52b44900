package console

import (
	"embed"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// languages are those that the page speaks, the first one to whoever speaks none of them.
var languages = []string{"en", "bn"}

// languageNames are what they call themselves.
var languageNames = map[string]string{"en": "English", "bn": "বাংলা"}

const languageCookie = "khata_lang"

//go:embed texts
var textFiles embed.FS

// texts are all words of the page by language and name.
var texts = loadTexts()

func loadTexts() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, language := range languages {
		var spoken map[string]string
		if err := json.Unmarshal(mustRead(textFiles, "texts/"+language+".json"), &spoken); err != nil {
			panic("console: texts/" + language + ".json: " + err.Error())
		}
		all[language] = spoken
	}
	return all
}

// negotiate picks the language: what the visitor asks for now, has asked for before, or the browser prefers.
func negotiate(r *http.Request) string {
	wanted := []string{r.URL.Query().Get("lang")}
	if cookie, err := r.Cookie(languageCookie); err == nil {
		wanted = append(wanted, cookie.Value)
	}
	for _, language := range append(wanted, preferred(r.Header.Get("Accept-Language"))...) {
		if slices.Contains(languages, language) {
			return language
		}
	}
	return languages[0]
}

// preferred lists the languages of an Accept-Language header, without their regions, the most wanted first.
func preferred(header string) []string {
	type choice struct {
		language string
		weight   float64
	}
	var choices []choice
	for part := range strings.SplitSeq(header, ",") {
		tag, parameter, _ := strings.Cut(strings.TrimSpace(part), ";")
		language, _, _ := strings.Cut(strings.ToLower(tag), "-")
		weight := 1.0
		if q, ok := strings.CutPrefix(strings.TrimSpace(parameter), "q="); ok {
			if parsed, err := strconv.ParseFloat(q, 64); err == nil {
				weight = parsed
			}
		}
		if weight > 0 {
			choices = append(choices, choice{language, weight})
		}
	}
	slices.SortStableFunc(choices, func(a, b choice) int {
		switch {
		case a.weight > b.weight:
			return -1
		case a.weight < b.weight:
			return 1
		}
		return 0
	})
	var list []string
	for _, c := range choices {
		list = append(list, c.language)
	}
	return list
}

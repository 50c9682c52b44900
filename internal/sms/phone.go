package sms

import (
	"encoding/json"
	"regexp"
	"strings"
)

// isPhone reports whether text is a number in the form of E.164: a plus, and up to fifteen digits that begin with a country's.
var isPhone = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`).MatchString

// setting is which messages somebody wants.
type setting string

const (
	wantsAll      setting = "all"
	wantsReceived setting = "received"
	wantsNone     setting = "off"
)

// wants reports whether a message of that kind is wanted.
func (s setting) wants(k kind) bool { return s == wantsAll || s == wantsReceived && k != sent }

// preferences are what the metadata of an account says about messages.
type preferences struct {
	// phone is empty where there is none; badPhone says that what is there is no number.
	phone    string
	badPhone bool
	// language is empty where it is left to the sender.
	language Language
	setting  setting
}

// readPreferences reads metadata, which may be anything.
func readPreferences(metadata string) preferences {
	p := preferences{setting: wantsAll}
	var all map[string]json.RawMessage
	if metadata == "" || json.Unmarshal([]byte(metadata), &all) != nil {
		return p
	}
	if raw, ok := all["phone"]; ok && string(raw) != "null" && string(raw) != `""` {
		p.phone = asText(raw)
		if p.badPhone = !isPhone(p.phone); p.badPhone {
			p.phone = ""
		}
	}
	if language := Language(strings.ToLower(asText(all["sms_language"]))); language.Valid() {
		p.language = language
	}
	if raw, ok := all["sms"]; ok {
		switch s := setting(strings.ToLower(asText(raw))); {
		case s == wantsAll || s == wantsReceived:
			p.setting = s
		case string(raw) == "true" || string(raw) == "null" || string(raw) == `""`:
		default:
			// Whoever has written something here did not want all; that it cannot be understood is no reason to write to them.
			p.setting = wantsNone
		}
	}
	return p
}

// asText is a JSON string's text; empty for anything else.
func asText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

// MaskPhone leaves of a number what tells people which one it is, if they know it already.
func MaskPhone(phone string) string {
	const head, tail = 4, 2
	if len(phone) <= head+tail {
		return strings.Repeat("*", len(phone))
	}
	return phone[:head] + strings.Repeat("*", len(phone)-head-tail) + phone[len(phone)-tail:]
}

var likeNumber = regexp.MustCompile(`\+?[0-9][0-9 ().-]{4,}[0-9]`)

// MaskNumbers masks what may be phone numbers in what a gateway says.
func MaskNumbers(text string) string { return likeNumber.ReplaceAllStringFunc(text, MaskPhone) }

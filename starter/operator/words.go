package operator

import (
	"fmt"
	"net/http"
	"strings"
)

// The languages.
const (
	english  = "en"
	japanese = "ja"
)

// phrase is one text in both languages. Verbs are Go's; where a language wants another order it numbers them.
type phrase struct{ en, ja string }

// catalog is the one list of texts. Its parts are kept by what they are about.
var catalog = merged(pageWords, domainWords, pointWords, refusalWords)

func merged(parts ...map[string]phrase) map[string]phrase {
	out := map[string]phrase{}
	for _, p := range parts {
		for key, text := range p {
			out[key] = text
		}
	}
	return out
}

// say is a text in a language. A key that is not there is shown as it is: the test of the catalog finds it before a person does.
func say(lang, key string, args ...any) string {
	p, known := catalog[key]
	if !known {
		return key
	}
	text := p.en
	if lang == japanese {
		text = p.ja
	}
	if len(args) == 0 {
		return text
	}
	return fmt.Sprintf(text, args...)
}

// sayDomain is a sentence that the domain wrote in English.
func sayDomain(lang, english string) string {
	if ja, known := sentences[english]; known && lang == japanese {
		return ja
	}
	return english
}

// sayWhy is why something is forbidden.
func sayWhy(lang, forbidden string) string {
	p := reasons[forbidden]
	if lang == japanese {
		return p.ja
	}
	return p.en
}

// languageOf is what the person chose, else the first of the browser's that we have.
func languageOf(r *http.Request) string {
	if c, err := r.Cookie(languageCookie); err == nil && (c.Value == english || c.Value == japanese) {
		return c.Value
	}
	for _, part := range strings.Split(r.Header.Get("Accept-Language"), ",") {
		tag, _, _ := strings.Cut(strings.TrimSpace(part), ";")
		switch base, _, _ := strings.Cut(strings.ToLower(tag), "-"); base {
		case english, japanese:
			return base
		}
	}
	return english
}

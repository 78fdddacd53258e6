package returns

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
)

const style = "body{font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:20vh auto;padding:0 1rem;color:#222;background:#fff}" +
	"@media (prefers-color-scheme:dark){body{color:#eee;background:#111}}"

// styleHash lets the page's own style through its policy, and no other.
var styleHash = func() string {
	sum := sha256.Sum256([]byte(style))
	return base64.StdEncoding.EncodeToString(sum[:])
}()

var page = template.Must(template.New("return").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
{{if .Again}}<meta http-equiv="refresh" content="5">
{{end}}<title>{{.Title}}</title>
<style>{{.Style}}</style>
</head>
<body>
<main role="status">
<h1>{{.Title}}</h1>
<p>{{.Message}}</p>
</main>
</body>
</html>
`))

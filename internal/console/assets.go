package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"strings"
)

//go:embed static/*
var staticFiles embed.FS

// assets are the stylesheet, the script and the favicon. Their URLs change with their content.
type assets struct {
	prefix  string
	content map[string][]byte
}

func newAssets() (*assets, error) {
	entries, err := staticFiles.ReadDir("static")
	if err != nil {
		return nil, fmt.Errorf("read the static files: %w", err)
	}
	a, sum := &assets{content: map[string][]byte{}}, sha256.New()
	for _, entry := range entries {
		raw, err := staticFiles.ReadFile("static/" + entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read the static files: %w", err)
		}
		a.content[entry.Name()] = raw
		sum.Write(raw)
	}
	a.prefix = "/static/" + hex.EncodeToString(sum.Sum(nil))[:12] + "/"
	return a, nil
}

func (a *assets) path(name string) string { return a.prefix + name }

// ServeHTTP implements http.Handler.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, a.prefix)
	content, ok := a.content[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	w.Header().Set("Content-Type", kinds[path.Ext(name)])
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable") // they contain no secrets
	_, _ = w.Write(content)
}

package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/console/history"
	"github.com/breakwater-k8s/breakwater/internal/console/plot"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/version"
)

//go:embed templates/*.html
var templateFiles embed.FS

// frame is the layout data around the body of a page.
type frame struct {
	Title, User, Path string
	// Cores are the names of all cores.
	Cores []string
	// Session reports whether the user can sign out of a session. Live reports whether the page refreshes itself.
	Session, Live bool
	// Refresh is the number of seconds after which a browser without scripts reloads the page; 0 is never.
	Refresh int
	Version string
	Began   time.Time
	// History says where histories are kept.
	History string
	Body    any
	// Old reports whether data of the page are old, because a core is unreachable.
	Old bool
	// Status is a live region that screen readers announce when it changes.
	Status string
}

// pages holds the templates of all pages, by name.
type pages struct {
	all    map[string]*template.Template
	assets *assets
}

func newPages(runbooks string) (*pages, error) {
	a, err := newAssets()
	if err != nil {
		return nil, err
	}
	p := &pages{all: map[string]*template.Template{}, assets: a}
	base, err := template.New("").Funcs(functions(a, runbooks)).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html")
	if err != nil {
		return nil, fmt.Errorf("read the templates: %w", err)
	}
	for _, name := range []string{"fleet", "protector", "cells", "sign-in", "problem"} {
		page, err := base.Clone()
		if err == nil {
			page, err = page.ParseFS(templateFiles, "templates/"+name+".html")
		}
		if err != nil {
			return nil, fmt.Errorf("read the template of the page %s: %w", name, err)
		}
		p.all[name] = page
	}
	return p, nil
}

func functions(a *assets, runbooks string) template.FuncMap {
	return template.FuncMap{
		"asset":   a.path,
		"runbook": func(name string) string { return runbooks + "/" + name + ".md" },
		"word":    state.Text,
		"states":  states,
		"windows": windows,
		"utc":     func(t time.Time) string { return t.UTC().Format("15:04:05") },
		"iso":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"bar": func(r row) plot.Bar {
			floor := 0
			if r.Floor != nil {
				floor = *r.Floor
			}
			return plot.NewBar(r.Available, r.UnderWay, floor, r.Floor != nil, r.Expected)
		},
		"known": func(n *int) string {
			if n == nil {
				return "?"
			}
			return strconv.Itoa(*n)
		},
		"spreadTotal": spreadTotal,
		"note":        func(span int, text string) map[string]any { return map[string]any{"Span": span, "Text": text} },
		"join":        func(all []string) string { return strings.Join(all, "; ") },
		"percent":     func(part, whole int) int { return (part*100 + whole/2) / max(whole, 1) },
		"link":        func(b fleetBody, key string, value any) string { return b.link(key, fmt.Sprint(value)) },
		"query":       func(b fleetBody) query { return b.query },
		"add":         func(a, b int) int { return a + b },
		"sub":         func(a, b float64) float64 { return a - b },
		"newest":      newest,
		"chart":       func(c plot.Chart, label string) map[string]any { return map[string]any{"Chart": c, "Label": label} },
		"conditions": func(all []status.Condition, old bool) map[string]any {
			return map[string]any{"Conditions": all, "Old": old}
		},
		"number": func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) },
		"count":  func(totals map[state]int, s state) int { return totals[s] },
	}
}

// newest returns the last 40 points of a history for a table, newest first.
func newest(points []history.Point) []history.Point {
	const most = 40
	var last []history.Point
	for i := len(points) - 1; i >= 0 && len(last) < most; i-- {
		last = append(last, points[i])
	}
	return last
}

// writePage responds with a page. It makes the page printable as a whole; this changes no character of the templates themselves.
func (p *pages) writePage(w http.ResponseWriter, status int, name string, f frame) {
	var text bytes.Buffer
	if err := p.all[name].ExecuteTemplate(&text, "layout", f); err != nil {
		http.Error(w, "Cannot render the page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, printable.Text(text.String())) // the client may have disconnected
}

// renderLive renders the part of a page that is refreshed.
func (p *pages) renderLive(name string, f frame) (string, error) {
	var text strings.Builder
	err := p.all[name].ExecuteTemplate(&text, "live", f)
	return printable.Text(text.String()), err
}

// frame returns the layout data for a visitor's page.
func (s *server) frame(v visit, body any) frame {
	f := frame{
		User: v.User.Name, Path: v.URL.Path, Session: v.Session != nil, Live: true, Version: version.String(), Began: s.began, Body: body, History: s.historyText(),
	}
	for _, c := range s.cores {
		f.Cores = append(f.Cores, c.name)
	}
	if seconds, err := strconv.Atoi(v.URL.Query().Get("refresh")); err == nil {
		f.Refresh = min(max(seconds, 5), 3600)
	}
	switch b := body.(type) {
	case fleetBody:
		f.Title, f.Old, f.Status = "Fleet", b.isOld(), b.status()+fleetStatus(b)
	case protectorBody:
		f.Title, f.Old, f.Status = b.ID(), b.isOld(), b.status()+protectorStatus(&b)
	case cellsBody:
		f.Title, f.Old, f.Status = "Cells", b.isOld(), b.status()+cellsStatus(b.Cells)
	}
	return f
}

func (s *server) historyText() string {
	if s.options.HistoryFile != "" {
		return "the console keeps it in a file, for a day at most"
	}
	return "the console keeps it in memory, for a day at most"
}

// status says what is wrong with cores and cells.
func (b coresBody) status() (text string) {
	for i := range b.Alarms {
		text += b.Alarms[i].Consequence + " "
	}
	return text
}

// isOld reports whether a core is unreachable.
func (b coresBody) isOld() bool {
	return slices.ContainsFunc(b.Cores, func(c coreState) bool { return c.Unreachable })
}

func fleetStatus(b fleetBody) string {
	t := b.Totals
	text := fmt.Sprintf("%s: %d below their floor, %d at it", printable.Count(t.Protectors, "protector"), t.Of[stateBelowFloor], t.Of[stateAtFloor])
	if b.Events {
		text += fmt.Sprintf(", %d with recently refused removals", t.Of[stateDenied])
	}
	return text + "."
}

func protectorStatus(b *protectorBody) string {
	text := b.ID() + ": "
	for i, s := range b.States {
		if i > 0 {
			text += ", "
		}
		text += s.Text()
	}
	if len(b.States) == 0 {
		text += "no problems"
	}
	return text + "."
}

func cellsStatus(cells []cellView) string {
	silent := 0
	for _, c := range cells {
		if c.Freshness == stale {
			silent++
		}
	}
	return fmt.Sprintf("%s, %d of them stale.", printable.Count(len(cells), "cell"), silent)
}

package operate_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"

	"github.com/breakwater-k8s/breakwater/e2e/harness/browser"
)

// contrastScript finds text with too little contrast to its background by the formula of WCAG 2: 4.5 to 1, or 3 to 1 for large text.
const contrastScript = `(() => {
  const parse = (c) => (c.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.nodeValue.trim() || !e.checkVisibility() || e.closest(".visually-hidden, noscript, script, .skip")) continue;
    const style = getComputedStyle(e), a = light(parse(e.closest("svg") ? style.fill : style.color)), b = light(behind(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), size = parseFloat(style.fontSize);
    const want = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    if (ratio < want) poor.push(ratio.toFixed(2) + " " + walker.currentNode.nodeValue.trim().slice(0, 40));
  }
  return poor;
})()`

// unnamedFormsScript finds forms without an accessible name. A form with a field to fill in is a landmark that needs a name. So does an element
// with an explicit role of form or search. A form with only buttons is not a landmark (HTML-AAM), and its buttons have names. The script reads
// the document instead of the accessibility tree, because versions of Chromium disagree about forms without a name in that tree.
const unnamedFormsScript = `[...document.querySelectorAll("form, [role=form], [role=search]")].filter((form) => {
  if (!form.hasAttribute("role") && !form.querySelector("input:not([type=hidden]), textarea, select")) return false;
  const ids = (form.getAttribute("aria-labelledby") || "").split(/\s+/);
  const name = ids.map((id) => document.getElementById(id)?.textContent ?? "").join(" ") + (form.getAttribute("aria-label") || "");
  return !name.trim();
}).map((form) => form.outerHTML.slice(0, 120))`

// expectAccessible checks the contrast, the width and the accessibility tree of a page.
func (b *consoleBrowser) expectAccessible(page string) {
	b.Helper()
	for _, poor := range browser.Evaluate[[]string](b.Browser, contrastScript) {
		b.Errorf("%s: too little contrast: %s", page, poor)
	}
	if wide := browser.Evaluate[int](b.Browser, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); wide > 0 {
		b.Errorf("%s is %d pixels wider than the screen", page, wide)
	}
	for _, form := range browser.Evaluate[[]string](b.Browser, unnamedFormsScript) {
		b.Errorf("%s: a form has no accessible name: %s", page, form)
	}
	b.expectNoAxeViolations(page)
	counts, level := map[string]int{}, 0
	for _, n := range browser.Call(b.Browser, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		if n.Ignored {
			continue
		}
		role, name := valueOf(n.Role), valueOf(n.Name)
		counts[role]++
		if slices.Contains([]string{"link", "button", "textbox", "searchbox", "image", "img", "region", "heading"}, role) && strings.TrimSpace(name) == "" {
			b.Errorf("%s: a %s has no name", page, role)
		}
		if role != "heading" {
			continue
		}
		for _, p := range n.Properties {
			if p.Name == accessibility.PropertyNameLevel {
				now := 0
				b.Must(json.Unmarshal(p.Value.Value, &now))
				if now > level+1 {
					b.Errorf("%s: heading %q is of level %d after one of %d", page, name, now, level)
				}
				level = now
			}
		}
	}
	for role, want := range map[string]int{"main": 1, "banner": 1} {
		if counts[role] != want {
			b.Errorf("%s has %d of the landmark %s: %v", page, counts[role], role, counts)
		}
	}
	if level == 0 {
		b.Errorf("%s has no heading: %v", page, counts)
	}
}

// axeCore is the environment variable with the path of axe.min.js from the npm package axe-core. If it is set, tests also check pages with axe.
const axeCore = "AXE_CORE"

func (b *consoleBrowser) expectNoAxeViolations(page string) {
	b.Helper()
	path := os.Getenv(axeCore)
	if path == "" {
		return
	}
	script, err := os.ReadFile(path)
	b.Must(err)
	b.Run(chromedp.Evaluate[chromedp.Void](string(script)))
	found := browser.EvaluateAction(b.Browser, chromedp.Evaluate[[]string](
		`axe.run().then((r) => r.violations.map((v) => v.id + ": " + v.help + " " + v.nodes.map((n) => n.html.slice(0, 120)).join(" ")))`, chromedp.EvalAwaitPromise))
	for _, violation := range found {
		b.Errorf("%s: %s", page, violation)
	}
}

func valueOf(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	text := ""
	if err := json.Unmarshal(v.Value, &text); err != nil {
		return fmt.Sprint(v.Value)
	}
	return text
}

package shape

// PatternWords describes the patterns of the definitions in words, to continue "must be ".
func PatternWords() map[string]string {
	const (
		label     = `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
		subdomain = label + `(\.` + label + `)*`
		ends      = ", and begin and end with a letter or digit"
		labelKey  = "a label key, such as app or example.com/app"
	)
	return map[string]string{
		`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`:                        "a label value: it may consist of letters, digits, '-', '_' and '.'" + ends,
		`^(` + subdomain + `/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`: labelKey,
		`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]+$`:                       "an API version, such as v1 or apps/v1",
		`^(` + subdomain + `)?$`:                                               "an API group, such as apps, or empty for the core group",
		`^-?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`:                          "a duration, such as 90s or 1h30m",
		`^[A-Z][A-Za-z0-9]*$`:                                                  "a kind, such as Deployment",
		`^[A-Za-z][A-Za-z0-9]*(\.[A-Za-z][A-Za-z0-9]*)*$`:                      "names of fields, separated by dots, such as spec.template",
		`^` + label + `$`:                                                      "a name: it may consist of lower-case letters, digits and '-'" + ends,
		`^` + subdomain + `$`:                                                  "a name: it may consist of lower-case letters, digits, '-' and '.'" + ends,
	}
}

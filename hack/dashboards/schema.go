package main

// Dashboard and what it is made of are the part of Grafana's schema of dashboards (version 39) that ours need.
type Dashboard struct {
	UID           string      `json:"uid"`
	Title         string      `json:"title"`
	Description   string      `json:"description"`
	Tags          []string    `json:"tags"`
	SchemaVersion int         `json:"schemaVersion"`
	Editable      bool        `json:"editable"`
	GraphTooltip  int         `json:"graphTooltip"`
	Refresh       string      `json:"refresh"`
	Time          TimeRange   `json:"time"`
	Links         []Link      `json:"links"`
	Templating    Templating  `json:"templating"`
	Annotations   Annotations `json:"annotations"`
	Panels        []Panel     `json:"panels"`
}

// TimeRange is what is shown at first.
type TimeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Link leads to dashboards with a tag, or from a panel's field to an address.
type Link struct {
	Title       string   `json:"title"`
	Type        string   `json:"type,omitempty"`
	Icon        string   `json:"icon,omitempty"`
	Tooltip     string   `json:"tooltip"`
	Tags        []string `json:"tags,omitempty"`
	AsDropdown  bool     `json:"asDropdown"`
	TargetBlank bool     `json:"targetBlank"`
	IncludeVars bool     `json:"includeVars"`
	KeepTime    bool     `json:"keepTime"`
}

// Annotations are events that are shown in all panels; ours have none.
type Annotations struct {
	List []any `json:"list"`
}

// Templating are the variables.
type Templating struct {
	List []Variable `json:"list"`
}

// Variable is chosen by the user.
type Variable struct {
	Name       string      `json:"name"`
	Label      string      `json:"label"`
	Type       string      `json:"type"`
	Query      string      `json:"query"`
	Datasource *Datasource `json:"datasource,omitempty"`
	Refresh    int         `json:"refresh,omitempty"`
	Sort       int         `json:"sort,omitempty"`
	Multi      bool        `json:"multi,omitempty"`
	IncludeAll bool        `json:"includeAll,omitempty"`
	AllValue   string      `json:"allValue,omitempty"`
}

// Datasource is where a query goes.
type Datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Panel is a picture.
type Panel struct {
	ID              int              `json:"id"`
	Type            string           `json:"type"`
	Title           string           `json:"title"`
	Description     string           `json:"description,omitempty"`
	Datasource      *Datasource      `json:"datasource,omitempty"`
	GridPos         GridPos          `json:"gridPos"`
	FieldConfig     *FieldConfig     `json:"fieldConfig,omitempty"`
	Options         map[string]any   `json:"options,omitempty"`
	Targets         []Target         `json:"targets,omitempty"`
	Transformations []Transformation `json:"transformations,omitempty"`
	Collapsed       *bool            `json:"collapsed,omitempty"`
	Panels          *[]Panel         `json:"panels,omitempty"`
}

// GridPos is where it stands, in 24 columns.
type GridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// FieldConfig is how values are shown, and which of them in another way.
type FieldConfig struct {
	Defaults  Field      `json:"defaults"`
	Overrides []Override `json:"overrides"`
}

// Field is how a value is shown.
type Field struct {
	Unit       string         `json:"unit,omitempty"`
	Decimals   *int           `json:"decimals,omitempty"`
	Min        *float64       `json:"min,omitempty"`
	NoValue    string         `json:"noValue,omitempty"`
	Color      *Color         `json:"color,omitempty"`
	Thresholds *Thresholds    `json:"thresholds,omitempty"`
	Mappings   []Mapping      `json:"mappings,omitempty"`
	Links      []FieldLink    `json:"links,omitempty"`
	Custom     map[string]any `json:"custom,omitempty"`
}

// FieldLink leads from a value to an address.
type FieldLink struct {
	Title string `json:"title"`
	URL   string `json:"url"`
}

// Color says what a value's colour goes by.
type Color struct {
	Mode       string `json:"mode"`
	FixedColor string `json:"fixedColor,omitempty"`
}

// Thresholds are the values from which on colours change.
type Thresholds struct {
	Mode  string `json:"mode"`
	Steps []Step `json:"steps"`
}

// Step begins at a value; that of the first is null.
type Step struct {
	Value *float64 `json:"value"`
	Color string   `json:"color"`
}

// Mapping shows values as words.
type Mapping struct {
	Type    string          `json:"type"`
	Options map[string]Word `json:"options"`
}

// Word is one of them.
type Word struct {
	Text  string `json:"text"`
	Color string `json:"color"`
	Index int    `json:"index"`
}

// Override shows some fields in another way.
type Override struct {
	Matcher    Matcher    `json:"matcher"`
	Properties []Property `json:"properties"`
}

// Matcher says which.
type Matcher struct {
	ID      string `json:"id"`
	Options any    `json:"options"`
}

// Property says how.
type Property struct {
	ID    string `json:"id"`
	Value any    `json:"value"`
}

// Target is a query.
type Target struct {
	RefID        string      `json:"refId"`
	Expr         string      `json:"expr"`
	LegendFormat string      `json:"legendFormat,omitempty"`
	Format       string      `json:"format"`
	Instant      bool        `json:"instant"`
	Range        bool        `json:"range"`
	Exemplar     bool        `json:"exemplar,omitempty"`
	Datasource   *Datasource `json:"datasource"`
}

// Transformation changes what queries have answered before it is shown.
type Transformation struct {
	ID      string         `json:"id"`
	Options map[string]any `json:"options"`
}

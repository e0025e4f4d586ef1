package main

// Dashboard and its parts are the subset of Grafana's dashboard schema (version 39) that the dashboards use.
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

// TimeRange is the default time range.
type TimeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Link links to dashboards with a tag.
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

// Annotations are events that all panels show. These dashboards have none.
type Annotations struct {
	List []any `json:"list"`
}

// Templating holds the variables.
type Templating struct {
	List []Variable `json:"list"`
}

// Variable is selected by the user.
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

// Datasource is the data source of a query.
type Datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Panel is one panel.
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

// GridPos is the position of a panel, in 24 columns.
type GridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// FieldConfig defines how values are shown, with overrides for some of them.
type FieldConfig struct {
	Defaults  Field      `json:"defaults"`
	Overrides []Override `json:"overrides"`
}

// Field defines how a value is shown.
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

// FieldLink links a value to a URL.
type FieldLink struct {
	Title string `json:"title"`
	URL   string `json:"url"`
}

// Color defines how the color of a value is chosen.
type Color struct {
	Mode       string `json:"mode"`
	FixedColor string `json:"fixedColor,omitempty"`
}

// Thresholds are the values at which the color changes.
type Thresholds struct {
	Mode  string `json:"mode"`
	Steps []Step `json:"steps"`
}

// Step begins at a value. The first step's value is null.
type Step struct {
	Value *float64 `json:"value"`
	Color string   `json:"color"`
}

// Mapping shows values as words.
type Mapping struct {
	Type    string          `json:"type"`
	Options map[string]Word `json:"options"`
}

// Word is the text and color of a value.
type Word struct {
	Text  string `json:"text"`
	Color string `json:"color"`
	Index int    `json:"index"`
}

// Override changes how some fields are shown.
type Override struct {
	Matcher    Matcher    `json:"matcher"`
	Properties []Property `json:"properties"`
}

// Matcher selects the fields.
type Matcher struct {
	ID      string `json:"id"`
	Options any    `json:"options"`
}

// Property is one changed setting.
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

// Transformation changes query results before they are shown.
type Transformation struct {
	ID      string         `json:"id"`
	Options map[string]any `json:"options"`
}

package qstat

// QuotaRow is a row of qquota(1): a limit, and its usage under one key.
type QuotaRow struct {
	Rule     string `json:"rule"`     // SET/RULE
	Resource string `json:"resource"` // name of the complex attribute
	// Used is empty for an attribute that is not consumed. Both are formatted.
	Used  string `json:"used,omitempty"`
	Limit string `json:"limit"`
	// Filter alternates kinds and names; an exclamation mark precedes excluded names: "users
	// alice,!bob hosts n1".
	Filter string `json:"filter,omitempty"`
}

// limitWidth is the width of the column with the limit. As in Grid Engine, longer texts are cut off.
const limitWidth = 20

// AppendQuotas appends the output of qquota. It is empty without rows.
func AppendQuotas(dst []byte, rows []QuotaRow) []byte {
	p := page{dst}
	if len(rows) > 0 {
		p.put("resource quota rule limit                filter\n")
		p.rule('-', 80)
		p.end()
	}
	for i := range rows {
		r := &rows[i]
		p.left(r.Rule, 18)
		p.space()
		begin := len(p.text)
		p.value(r.Resource)
		p.put("=")
		if r.Used != "" {
			p.value(r.Used)
			p.put("/")
		}
		p.value(r.Limit)
		p.text = p.text[:min(len(p.text), begin+limitWidth)]
		p.fill(begin, limitWidth)
		p.space()
		p.line(r.Filter)
	}
	return p.text
}

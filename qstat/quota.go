package qstat

// QuotaRow is a row of qquota(1): a limit, and what is used of it under one key.
type QuotaRow struct {
	Rule     string `json:"rule"`     // SET/RULE
	Resource string `json:"resource"` // name of the complex attribute
	// Used is empty for an attribute that is not consumed. Both are formatted.
	Used  string `json:"used,omitempty"`
	Limit string `json:"limit"`
	// Filter are kinds and names in turn, with an exclamation mark in front of what is
	// excluded: "users alice,!bob hosts n1".
	Filter string `json:"filter,omitempty"`
}

// AppendQuotas appends what qquota prints: nothing without rows.
func AppendQuotas(dst []byte, rows []QuotaRow) []byte {
	if len(rows) > 0 {
		dst = append(dst, "resource quota rule limit                filter\n"...)
		dst = append(appendRepeated(dst, '-', 80), '\n')
	}
	for i := range rows {
		r := &rows[i]
		dst = append(appendLeft(dst, r.Rule, 18), ' ')
		begin := len(dst)
		dst = append(append(dst, r.Resource...), '=')
		if r.Used != "" {
			dst = append(append(dst, r.Used...), '/')
		}
		dst = append(dst, r.Limit...)
		dst = append(appendBlanks(dst, 20-(len(dst)-begin)), ' ')
		dst = append(append(dst, r.Filter...), '\n')
	}
	return dst
}

# Functions for JSV scripts in Tcl (jsv(1), jsv_script_interface(3)). A script defines the
# procedures jsv_on_start and jsv_on_verify, sources this file and calls jsv_main; jsv.tcl is a
# script to begin with. Functions that ask return 1 or 0.
#
# What a user has put into a job is only ever the value of a variable here, never text that Tcl
# evaluates.

namespace eval ::jsv {
	variable params [dict create]
	variable envs [dict create]
}

# ::jsv::say writes a line of words, without empty ones.
proc ::jsv::say {args} {
	set words {}
	foreach word $args {
		if {$word ne ""} {
			lappend words $word
		}
	}
	puts [string map [list "\n" " "] [join $words " "]]
	flush stdout
}

# ::jsv::elements returns a list as a dictionary of elements, NAME or NAME=VALUE, by name.
proc ::jsv::elements {param} {
	set elements [dict create]
	foreach element [split [jsv_get_param $param] ","] {
		if {$element ne ""} {
			dict set elements [lindex [split $element "="] 0] $element
		}
	}
	return $elements
}

proc ::jsv::set_elements {param elements} {
	jsv_set_param $param [join [dict values $elements] ","]
}

# ::jsv::pair returns the name in front of the first space of a text, and what is behind it.
proc ::jsv::pair {text} {
	set space [string first " " $text]
	if {$space < 0} {
		return [list $text ""]
	}
	return [list [string range $text 0 [expr {$space - 1}]] [string range $text [expr {$space + 1}] end]]
}

proc ::jsv::get {dictionary name} {
	if {[dict exists $dictionary $name]} {
		return [dict get $dictionary $name]
	}
	return ""
}

proc jsv_clear_params {} { set ::jsv::params [dict create]; return }

proc jsv_clear_envs {} { set ::jsv::envs [dict create]; return }

proc jsv_is_param {param} { return [dict exists $::jsv::params $param] }

proc jsv_get_param {param} { return [::jsv::get $::jsv::params $param] }

proc jsv_set_param {param value} {
	if {$value eq ""} {
		return [jsv_del_param $param]
	}
	dict set ::jsv::params $param $value
	::jsv::say PARAM $param $value
}

proc jsv_del_param {param} {
	dict unset ::jsv::params $param
	::jsv::say PARAM $param
}

proc jsv_sub_is_param {param name} { return [dict exists [::jsv::elements $param] $name] }

proc jsv_sub_get_param {param name} {
	set element [::jsv::get [::jsv::elements $param] $name]
	set equals [string first "=" $element]
	if {$equals < 0} {
		return ""
	}
	return [string range $element [expr {$equals + 1}] end]
}

proc jsv_sub_add_param {param name {value ""}} {
	set elements [::jsv::elements $param]
	dict unset elements $name
	if {$value eq ""} {
		dict set elements $name $name
	} else {
		dict set elements $name "$name=$value"
	}
	::jsv::set_elements $param $elements
}

proc jsv_sub_del_param {param name} {
	set elements [::jsv::elements $param]
	if {[dict exists $elements $name]} {
		dict unset elements $name
		::jsv::set_elements $param $elements
	}
}

proc jsv_is_env {name} { return [dict exists $::jsv::envs $name] }

proc jsv_get_env {name} { return [::jsv::get $::jsv::envs $name] }

proc jsv_add_env {name {value ""}} {
	set word [expr {[jsv_is_env $name] ? "MOD" : "ADD"}]
	dict set ::jsv::envs $name $value
	::jsv::say ENV $word $name $value
}

proc jsv_mod_env {name {value ""}} { jsv_add_env $name $value }

proc jsv_del_env {name} {
	if {[jsv_is_env $name]} {
		dict unset ::jsv::envs $name
		::jsv::say ENV DEL $name
	}
}

proc jsv_send_env {} { ::jsv::say SEND ENV }

proc jsv_accept {args} { ::jsv::say RESULT STATE ACCEPT {*}$args }

proc jsv_correct {args} { ::jsv::say RESULT STATE CORRECT {*}$args }

proc jsv_reject {args} { ::jsv::say RESULT STATE REJECT {*}$args }

proc jsv_reject_wait {args} { ::jsv::say RESULT STATE REJECT_WAIT {*}$args }

proc jsv_log_info {args} { ::jsv::say LOG INFO {*}$args }

proc jsv_log_warning {args} { ::jsv::say LOG WARNING {*}$args }

proc jsv_log_error {args} { ::jsv::say LOG ERROR {*}$args }

proc jsv_show_params {} {
	foreach name [lsort [dict keys $::jsv::params]] {
		jsv_log_info "got param $name=[jsv_get_param $name]"
	}
}

proc jsv_show_envs {} {
	foreach name [lsort [dict keys $::jsv::envs]] {
		jsv_log_info "got env $name=[jsv_get_env $name]"
	}
}

# jsv_main talks with qsub or the daemon until they end.
proc jsv_main {} {
	# Nothing but a line feed ends a line.
	fconfigure stdin -translation lf
	fconfigure stdout -translation lf
	while {[gets stdin line] >= 0} {
		if {$line eq "START"} {
			jsv_clear_params
			jsv_clear_envs
			jsv_on_start
			::jsv::say STARTED
		} elseif {[string match "PARAM ?*" $line]} {
			lassign [::jsv::pair [string range $line 6 end]] name value
			dict set ::jsv::params $name $value
		} elseif {[string match "ENV ADD ?*" $line] || [string match "ENV MOD ?*" $line]} {
			lassign [::jsv::pair [string range $line 8 end]] name value
			dict set ::jsv::envs $name $value
		} elseif {[string match "ENV DEL ?*" $line]} {
			dict unset ::jsv::envs [string range $line 8 end]
		} elseif {$line eq "BEGIN"} {
			jsv_on_verify
		} elseif {$line eq "QUIT"} {
			return
		} elseif {$line ne "" && $line ne "SHOW"} {
			::jsv::say "ERROR unknown command \"$line\""
		}
	}
}

# Functions for JSV scripts in sh and bash (jsv(1), jsv_script_interface(3)). A script defines
# jsv_on_start and jsv_on_verify, sources this file and calls jsv_main.
#
# What a user has put into a job is only ever the value of a variable here, never text that the
# shell reads: names that are not made of letters, digits and underscores are left alone.

jsv_all_params=
jsv_all_envs=

# jsv_is_name_ NAME: whether NAME can be part of a variable of this script. All letters are
# listed, since a range may have more of them in some languages.
jsv_is_name_() {
	case $1 in
	'' | *[!abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_]*) return 1 ;;
	esac
}

# jsv_store_ KIND NAME VALUE
jsv_store_() {
	jsv_is_name_ "$2" || return 0
	eval "jsv_${1}_$2=\$3"
	eval "jsv_list_=\$jsv_all_${1}s"
	case " $jsv_list_ " in
	*" $2 "*) ;;
	*) eval "jsv_all_${1}s=\"\$jsv_list_ \$2\"" ;;
	esac
}

# jsv_forget_ KIND NAME
jsv_forget_() {
	jsv_is_name_ "$2" || return 0
	unset "jsv_${1}_$2"
	eval "jsv_list_=\$jsv_all_${1}s"
	jsv_rest_=
	for jsv_n_ in $jsv_list_; do
		[ "$jsv_n_" = "$2" ] || jsv_rest_="$jsv_rest_ $jsv_n_"
	done
	eval "jsv_all_${1}s=\$jsv_rest_"
}

# jsv_has_ KIND NAME
jsv_has_() {
	jsv_is_name_ "$2" && eval "[ \"\${jsv_${1}_$2+set}\" = set ]"
}

# jsv_value_ KIND NAME: into jsv_v_, empty if there is none.
jsv_value_() {
	jsv_v_=
	if jsv_has_ "$1" "$2"; then
		eval "jsv_v_=\$jsv_${1}_$2"
	fi
}

jsv_clear_() {
	eval "jsv_list_=\$jsv_all_${1}s"
	for jsv_n_ in $jsv_list_; do
		unset "jsv_${1}_$jsv_n_"
	done
	eval "jsv_all_${1}s="
}

jsv_say_() { printf '%s\n' "$*"; }

jsv_answer_() {
	if "$@"; then echo true; else echo false; fi
}

jsv_clear_params() { jsv_clear_ param; }
jsv_clear_envs() { jsv_clear_ env; }

jsv_is_param() { jsv_answer_ jsv_has_ param "$1"; }

jsv_get_param() {
	jsv_value_ param "$1"
	printf '%s\n' "$jsv_v_"
}

jsv_set_param() {
	if [ -z "$2" ]; then
		jsv_del_param "$1"
		return
	fi
	jsv_store_ param "$1" "$2"
	jsv_say_ "PARAM $1 $2"
}

jsv_del_param() {
	jsv_forget_ param "$1"
	jsv_say_ "PARAM $1"
}

# jsv_sub_find_ PARAM NAME: the element NAME or NAME=VALUE of a list into jsv_found_, its value
# into jsv_v_, and the other elements into jsv_others_.
jsv_sub_find_() {
	jsv_value_ param "$1"
	jsv_left_=$jsv_v_
	jsv_v_= jsv_found_= jsv_others_=
	while [ -n "$jsv_left_" ]; do
		jsv_one_=${jsv_left_%%,*}
		case $jsv_left_ in
		*,*) jsv_left_=${jsv_left_#*,} ;;
		*) jsv_left_= ;;
		esac
		if [ "${jsv_one_%%=*}" = "$2" ]; then
			jsv_found_=$jsv_one_
			case $jsv_one_ in
			*=*) jsv_v_=${jsv_one_#*=} ;;
			esac
		elif [ -n "$jsv_one_" ]; then
			jsv_others_=${jsv_others_:+$jsv_others_,}$jsv_one_
		fi
	done
	[ -n "$jsv_found_" ]
}

jsv_sub_is_param() { jsv_answer_ jsv_sub_find_ "$1" "$2"; }

jsv_sub_get_param() {
	jsv_sub_find_ "$1" "$2"
	printf '%s\n' "$jsv_v_"
}

jsv_sub_add_param() {
	jsv_sub_find_ "$1" "$2"
	jsv_set_param "$1" "${jsv_others_:+$jsv_others_,}$2${3:+=$3}"
}

jsv_sub_del_param() {
	if jsv_sub_find_ "$1" "$2"; then
		jsv_set_param "$1" "$jsv_others_"
	fi
}

jsv_is_env() { jsv_answer_ jsv_has_ env "$1"; }

jsv_get_env() {
	jsv_value_ env "$1"
	printf '%s\n' "$jsv_v_"
}

jsv_put_env_() {
	jsv_word_=ADD
	if jsv_has_ env "$1"; then
		jsv_word_=MOD
	fi
	jsv_store_ env "$1" "$2"
	jsv_say_ "ENV $jsv_word_ $1${2:+ $2}"
}

jsv_add_env() { jsv_put_env_ "$1" "$2"; }
jsv_mod_env() { jsv_put_env_ "$1" "$2"; }

jsv_del_env() {
	if jsv_has_ env "$1"; then
		jsv_forget_ env "$1"
		jsv_say_ "ENV DEL $1"
	fi
}

jsv_send_env() { jsv_say_ "SEND ENV"; }

jsv_result_() {
	jsv_state_=$1
	shift
	jsv_say_ "RESULT STATE $jsv_state_${*:+ $*}"
}

jsv_accept() { jsv_result_ ACCEPT "$@"; }
jsv_correct() { jsv_result_ CORRECT "$@"; }
jsv_reject() { jsv_result_ REJECT "$@"; }
jsv_reject_wait() { jsv_result_ REJECT_WAIT "$@"; }

jsv_log_info() { jsv_say_ "LOG INFO $*"; }
jsv_log_warning() { jsv_say_ "LOG WARNING $*"; }
jsv_log_error() { jsv_say_ "LOG ERROR $*"; }

jsv_show_() {
	eval "jsv_list_=\$jsv_all_${1}s"
	for jsv_shown_ in $jsv_list_; do
		jsv_value_ "$1" "$jsv_shown_"
		jsv_log_info "got $1 $jsv_shown_=$jsv_v_"
	done
}

jsv_show_params() { jsv_show_ param; }
jsv_show_envs() { jsv_show_ env; }

# jsv_main talks with qsub or the daemon until they end.
jsv_main() {
	while IFS= read -r jsv_line_; do
		case $jsv_line_ in
		START)
			jsv_clear_params
			jsv_clear_envs
			jsv_on_start
			jsv_say_ STARTED
			;;
		"PARAM "*)
			jsv_line_=${jsv_line_#PARAM }
			case $jsv_line_ in
			*" "*) jsv_store_ param "${jsv_line_%% *}" "${jsv_line_#* }" ;;
			*) jsv_store_ param "$jsv_line_" "" ;;
			esac
			;;
		"ENV ADD "* | "ENV MOD "*)
			jsv_line_=${jsv_line_#ENV ??? }
			case $jsv_line_ in
			*" "*) jsv_store_ env "${jsv_line_%% *}" "${jsv_line_#* }" ;;
			*) jsv_store_ env "$jsv_line_" "" ;;
			esac
			;;
		"ENV DEL "*) jsv_forget_ env "${jsv_line_#ENV DEL }" ;;
		BEGIN) jsv_on_verify ;;
		QUIT) return 0 ;;
		"" | SHOW) ;;
		*) jsv_say_ "ERROR unknown command \"$jsv_line_\"" ;;
		esac
	done
}

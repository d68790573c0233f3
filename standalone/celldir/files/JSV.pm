# Functions for JSV scripts in Perl (jsv(1), jsv_script_interface(3)). A script passes its
# functions to jsv_on_start and jsv_on_verify and calls jsv_main; jsv.pl is a script to begin with.
#
# Lists, such as l_hard, are references to hashes: jsv_get_param('l_hard')->{h_rt}. An element
# without a value is undef.
package JSV;

use strict;
use warnings;
use Exporter 'import';

our @EXPORT = qw(
	jsv_on_start jsv_on_verify jsv_main jsv_send_env
	jsv_clear_params jsv_is_param jsv_get_param jsv_set_param jsv_del_param jsv_get_param_hash
	jsv_sub_is_param jsv_sub_get_param jsv_sub_add_param jsv_sub_del_param
	jsv_clear_envs jsv_is_env jsv_get_env jsv_add_env jsv_mod_env jsv_del_env jsv_get_env_hash
	jsv_accept jsv_correct jsv_reject jsv_reject_wait
	jsv_show_params jsv_show_envs jsv_log_info jsv_log_warning jsv_log_error
);
our %EXPORT_TAGS = (ALL => \@EXPORT);

# The parameters that are lists of NAME or NAME=VALUE.
my %lists = map { $_ => 1 } qw(ac hold_jid hold_jid_ad l_hard l_soft M masterq q_hard q_soft);

my (%params, %envs);
my ($on_start, $on_verify) = (sub { }, sub { });

sub jsv_on_start { ($on_start) = @_; return; }

sub jsv_on_verify { ($on_verify) = @_; return; }

# say_line(WORD...) writes a line of words, without empty ones.
sub say_line {
	my $line = join ' ', grep { defined && length } @_;
	$line =~ tr/\n/ /;
	print STDOUT "$line\n";
	return;
}

# elements(PARAM) returns the elements of a list as pairs of name and value, in their order.
sub elements {
	my ($param) = @_;
	my $text = $params{$param};
	return () unless defined $text;
	return map { my ($name, $value) = split /=/, $_, 2; [$name, $value] } grep { length } split /,/, $text;
}

# set_elements(PARAM, PAIR...) changes a list.
sub set_elements {
	my ($param, @pairs) = @_;
	jsv_set_param($param, join ',', map { defined $_->[1] ? "$_->[0]=$_->[1]" : $_->[0] } @pairs);
	return;
}

sub jsv_clear_params { %params = (); return; }

sub jsv_clear_envs { %envs = (); return; }

sub jsv_is_param { return exists $params{$_[0]} ? 1 : ''; }

sub jsv_get_param {
	my ($param) = @_;
	return '' unless exists $params{$param};
	return $params{$param} unless $lists{$param};
	return {map { $_->[0] => $_->[1] } elements($param)};
}

sub jsv_get_param_hash { return map { $_ => jsv_get_param($_) } keys %params; }

sub jsv_set_param {
	my ($param, $value) = @_;
	return jsv_del_param($param) unless defined $value && length $value;
	$params{$param} = $value;
	say_line('PARAM', $param, $value);
	return;
}

sub jsv_del_param {
	my ($param) = @_;
	delete $params{$param};
	say_line('PARAM', $param);
	return;
}

sub jsv_sub_is_param {
	my ($param, $name) = @_;
	return (grep { $_->[0] eq $name } elements($param)) ? 1 : '';
}

sub jsv_sub_get_param {
	my ($param, $name) = @_;
	my ($found) = grep { $_->[0] eq $name } elements($param);
	return $found && defined $found->[1] ? $found->[1] : '';
}

sub jsv_sub_add_param {
	my ($param, $name, $value) = @_;
	undef $value if defined $value && !length $value;
	set_elements($param, (grep { $_->[0] ne $name } elements($param)), [$name, $value]);
	return;
}

sub jsv_sub_del_param {
	my ($param, $name) = @_;
	set_elements($param, grep { $_->[0] ne $name } elements($param)) if jsv_sub_is_param($param, $name);
	return;
}

sub jsv_is_env { return exists $envs{$_[0]} ? 1 : ''; }

sub jsv_get_env { return exists $envs{$_[0]} ? $envs{$_[0]} : ''; }

sub jsv_get_env_hash { return %envs; }

sub jsv_add_env {
	my ($name, $value) = @_;
	my $word = exists $envs{$name} ? 'MOD' : 'ADD';
	$envs{$name} = defined $value ? $value : '';
	say_line('ENV', $word, $name, $value);
	return;
}

sub jsv_mod_env { return jsv_add_env(@_); }

sub jsv_del_env {
	my ($name) = @_;
	return unless exists $envs{$name};
	delete $envs{$name};
	say_line('ENV DEL', $name);
	return;
}

sub jsv_send_env { say_line('SEND ENV'); return; }

sub jsv_accept { say_line('RESULT STATE ACCEPT', @_); return; }

sub jsv_correct { say_line('RESULT STATE CORRECT', @_); return; }

sub jsv_reject { say_line('RESULT STATE REJECT', @_); return; }

sub jsv_reject_wait { say_line('RESULT STATE REJECT_WAIT', @_); return; }

sub jsv_log_info { say_line('LOG INFO', @_); return; }

sub jsv_log_warning { say_line('LOG WARNING', @_); return; }

sub jsv_log_error { say_line('LOG ERROR', @_); return; }

sub jsv_show_params { jsv_log_info("got param $_=$params{$_}") for sort keys %params; return; }

sub jsv_show_envs { jsv_log_info("got env $_=$envs{$_}") for sort keys %envs; return; }

# jsv_main talks with qsub or the daemon until they end.
sub jsv_main {
	local ($|, $/) = (1, "\n");
	while (defined(my $line = <STDIN>)) {
		chomp $line;
		if ($line eq 'START') {
			jsv_clear_params();
			jsv_clear_envs();
			$on_start->();
			say_line('STARTED');
		} elsif ($line =~ /^PARAM ([^ ]+)(?: (.*))?$/s) {
			$params{$1} = defined $2 ? $2 : '';
		} elsif ($line =~ /^ENV (?:ADD|MOD) ([^ ]+)(?: (.*))?$/s) {
			$envs{$1} = defined $2 ? $2 : '';
		} elsif ($line =~ /^ENV DEL (.*)$/s) {
			delete $envs{$1};
		} elsif ($line eq 'BEGIN') {
			$on_verify->();
		} elsif ($line eq 'QUIT') {
			return;
		} elsif ($line ne '' && $line ne 'SHOW') {
			say_line("ERROR unknown command \"$line\"");
		}
	}
	return;
}

1;

#!/bin/sh
# Prints the archive of the machine whose file system is below $1 (default:
# this machine's), for a new file in this directory.
cd "${1:-}/sys/devices/system" || exit 1
echo "# $(uname -m), Linux $(uname -r)"
for dir in cpu node cpu/cpu[0-9]*/topology cpu/cpu[0-9]*/cache/index[23] node/node[0-9]*; do
	line=
	for name in online possible has_memory has_normal_memory \
		physical_package_id die_id cluster_id core_id \
		core_cpus_list thread_siblings_list book_cpus_list book_siblings_list package_cpus_list core_siblings_list \
		die_cpus_list cluster_cpus_list shared_cpu_list size cpulist distance; do
		test -f "$dir/$name" && test -r "$dir/$name" && line="$line; $name=$(cat "$dir/$name")"
	done
	test -r "$dir/meminfo" && line="$line; meminfo=$(grep MemTotal "$dir/meminfo")"
	test -n "$line" && echo "$dir: ${line#; }"
done | sort -V

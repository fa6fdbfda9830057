# Prints what a file for interactive shells defines: options that it changes, functions, aliases. One block, so
# that the aliases of the file do not change how the rest of this is read. Options that are about a terminal, or that
# would end or flood every command, are left out.
{
    lathe_before="
$(builtin shopt -p; builtin set +o)
"
    unset HISTFILE
    . "$1" >/dev/null 2>&1 </dev/null
    lathe_after=$(builtin shopt -p; builtin set +o)
    while IFS= builtin read -r lathe_line; do
        case $lathe_before in
        *"
$lathe_line
"*) continue ;;
        esac
        case ${lathe_line##* } in
        emacs | errexit | expand_aliases | histexpand | history | ignoreeof | login_shell | monitor | noexec | notify | \
            onecmd | privileged | restricted_shell | verbose | vi | xtrace) ;;
        *) builtin printf '%s\n' "$lathe_line" ;;
        esac
    done <<<"$lathe_after"
    builtin alias -p
    builtin printf '%s\n' '[[ -n ${lathe_functions-} ]] || return 0'
    builtin declare -f
    builtin printf '%s\n' '# end of snapshot'
}

# The same as take.bash, for zsh. An option that is on by default is listed as "no" and its name.
{
    lathe_before="
$(builtin set +o)
"
    unset HISTFILE
    . "$1" >/dev/null 2>&1 </dev/null
    lathe_after=$(builtin set +o)
    for lathe_line in "${(@f)lathe_after}"; do
        [[ $lathe_before == *"
$lathe_line
"* ]] && continue
        case ${lathe_line##* } in
        (no|)(aliases|emacs|errexit|errreturn|exec|histexpand|ignoreeof|interactive|login|monitor|notify|privileged|restricted|shinstdin|singlecommand|verbose|vi|xtrace|zle)) ;;
        *) builtin print -r -- "$lathe_line" ;;
        esac
    done
    builtin typeset -f
    builtin alias -L
    builtin alias -sL
    builtin print -r -- '# end of snapshot'
}

# SPDX-License-Identifier: Apache-2.0
# bash completion for kolorun. tests/launcher/cli.sh compares it with kolorun's options; kolorun
# itself gives the names of settings.

_kolorun() {
    local word=${COMP_WORDS[COMP_CWORD]} i=1 option value
    local options='-np -n --host -H --hostfile --oversubscribe --map-by --env -x --chdir --bind --gpus --timeout --start-timeout
        --transport --set --prefix --no-prefix --fold --no-fold --no-stdin --output-dir --no-copy --keep-going --timeline --ssh --agent --dry-run
        --json --verbose -v --help-settings --print-settings --help -h --version -V'
    COMPREPLY=()
    [[ ${COMP_WORDS[1]} != doctor || $COMP_CWORD == 1 ]] || i=2 # the options of a job follow
    # Finds the program, which follows all options and their values. For bash "=" is a separate
    # word.
    while ((i < COMP_CWORD)) && [[ ${COMP_WORDS[i]} == -* && ${COMP_WORDS[i]} != -- ]]; do
        option=${COMP_WORDS[i++]#-}
        option=-${option#-}
        case $option in
            -np | -n | -host | -H | -hostfile | -map-by | -env | -x | -chdir | -bind | -gpus | -timeout | -start-timeout | \
                -transport | -set | -output-dir | -timeline | -ssh | -agent | -json)
                [[ ${COMP_WORDS[i]} != = ]] || ((i++))
                if ((i >= COMP_CWORD)); then
                    [[ $word != = ]] || word=
                    _kolorun_value "$option" "$word"
                    return
                fi
                ((i++))
                # --set NAME=VALUE and -x NAME=VALUE are three words to bash.
                if [[ ${COMP_WORDS[i]} == = ]]; then
                    ((i + 1 < COMP_CWORD)) || return
                    ((i += 2))
                fi
                ;;
        esac
    done
    [[ ${COMP_WORDS[i]} != -- || $i -ge $COMP_CWORD ]] || ((i++))
    if ((i < COMP_CWORD)); then # an argument of the program
        if declare -F _command_offset >/dev/null; then
            _command_offset "$i"
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            compopt -o filenames 2>/dev/null
        fi
    elif [[ $word == -* && ${COMP_WORDS[i - 1]} != -- ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -c -- "$word"; compgen -f -- "$word"; compgen -W 'doctor info timeline help' -- "$word")
        compopt -o filenames 2>/dev/null
    fi
}

_kolorun_value() { # OPTION WORD
    case $1 in
        -map-by) mapfile -t COMPREPLY < <(compgen -W 'slot node' -- "$2") ;;
        -bind) mapfile -t COMPREPLY < <(compgen -W 'none core numa auto' -- "$2") ;;
        -transport) mapfile -t COMPREPLY < <(compgen -W 'auto inproc shm rdma tcp' -- "$2") ;;
        -host | -H) mapfile -t COMPREPLY < <(compgen -A hostname -- "$2") ;;
        -env | -x) mapfile -t COMPREPLY < <(compgen -e -- "$2") ;;
        -ssh) mapfile -t COMPREPLY < <(compgen -c -- "$2") ;;
        -chdir | -output-dir)
            mapfile -t COMPREPLY < <(compgen -d -- "$2")
            compopt -o filenames 2>/dev/null
            ;;
        -hostfile | -timeline | -agent | -json)
            mapfile -t COMPREPLY < <(compgen -f -- "$2")
            compopt -o filenames 2>/dev/null
            ;;
        -set)
            mapfile -t COMPREPLY < <(compgen -S = -W "$("${COMP_WORDS[0]}" --help-settings 2>/dev/null |
                grep -oE '^ *KOLO_[A-Z0-9_]+' | sed 's/^ *KOLO_//')" -- "$2")
            compopt -o nospace 2>/dev/null
            ;;
    esac
    return 0
}

complete -F _kolorun kolorun

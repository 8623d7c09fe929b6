package cli

const checkText = `Usage: berth check [LOCK] [--connect] [--json] [flags] [--] [COMMAND...]
       berth check --config FILE [--connect]

Takes the settings of 'berth run' and says whether they are safe: whether the
command is certainly dead before another holder can start. Shows when what
happens, and how long a failover takes. With --connect it asks the broker too.

Examples:
  berth check --config /etc/berth/importer.hcl --connect
  berth check --heartbeat 10s --loss "TERM 10s, KILL"
`

const exitStatusesOfCheck = `
Exit status:
  0    safe; with --connect, the broker can carry it
  64   wrong usage
  69   no broker could be reached (with --connect)
  70   another error, such as output that cannot be written
  75   the broker could not say everything; try again
  77   the broker refused the login or a permission, or the directory of local
       locks cannot be used (with --connect)
  78   the configuration is invalid or unsafe
`

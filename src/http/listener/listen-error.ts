/** The port could not be bound; the message says why and what to do. */
export class ListenError extends Error {
  readonly code: string;

  constructor(cause: NodeJS.ErrnoException, host: string, port: number, flag: string) {
    super(explain(cause, host, port, flag), { cause });
    this.name = 'ListenError';
    this.code = cause.code ?? 'UNKNOWN';
  }
}

function explain(cause: NodeJS.ErrnoException, host: string, port: number, flag: string): string {
  switch (cause.code) {
    case 'EADDRINUSE':
      return (
        `${host}:${port} is in use by another process, perhaps another gateway. ` +
        `See which: ${process.platform === 'linux' ? `ss -ltnp 'sport = :${port}'` : process.platform === 'win32' ? `netstat -ano | findstr :${port}` : `lsof -nP -iTCP:${port} -sTCP:LISTEN`}. ` +
        `Stop it, or choose another port with ${flag} (0 takes any free one).`
      );
    case 'EACCES':
      return `The system does not let this user listen on port ${port}; choose one above 1023 with ${flag}.`;
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `${host} is not an address of this machine; choose another with --host.`;
    default:
      return `Cannot listen on ${host}:${port}: ${cause.message}`;
  }
}

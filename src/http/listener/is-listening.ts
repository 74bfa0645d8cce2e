import { connect } from 'node:net';

/** Whether a program accepts connections at the URL. Sends nothing. Never rejects. */
export function isListening(url: string, timeoutMs = 2_000): Promise<boolean> {
  if (!URL.canParse(url)) return Promise.resolve(false);
  const { protocol, hostname, port } = new URL(url);
  const fallback = protocol === 'https:' ? 443 : 80;
  return new Promise((resolve) => {
    const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: port === '' ? fallback : Number(port) });
    const end = (listening: boolean): void => {
      socket.destroy();
      resolve(listening);
    };
    socket.setTimeout(timeoutMs, () => end(false));
    socket.once('connect', () => end(true));
    socket.once('error', () => end(false));
  });
}

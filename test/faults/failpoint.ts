/** A defect in waiting: on SIGUSR2 the process it was loaded into throws where nobody catches it. */
process.on('SIGUSR2', () => {
  const defect = new Error('planted defect');
  if (process.env['FAILPOINT'] === 'rejection') void Promise.reject(defect);
  else {
    setImmediate(() => {
      throw defect;
    });
  }
});

package checkback;

import java.io.IOException;
import java.io.UncheckedIOException;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Spark's checkpoint files where nothing can be renamed: each is sent under its own name, and is there when all of it is.
 *
 * What must not be written over is sent on the condition that nothing has the name, which the store itself judges: of
 * two who send it at once one is refused. What fails is raised; Spark's own class for such stores
 * (AbortableStreamBasedCheckpointFileManager) logs it, and goes on as if the file were there.
 */
public class WholeFiles extends FileSystemBasedCheckpointFileManager {

    public WholeFiles(Path path, Configuration configuration) {
        super(path, configuration);
    }

    public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite) {
        try {
            return new WholeFile(path, opened(path, overwrite));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private FSDataOutputStream opened(Path path, boolean overwrite) throws IOException {
        FSDataOutputStreamBuilder file = fs().createFile(path);
        file.create();
        file.overwrite(overwrite);
        file.recursive();
        // without asking first what is there
        String how = overwrite ? "fs.s3a.create.performance" : "fs.option.create.conditional.overwrite";
        file.must(how, true);
        return (FSDataOutputStream) file.build();
    }

    private static class WholeFile extends CheckpointFileManager.CancellableFSDataOutputStream {

        private final Path path;
        private final FSDataOutputStream file;
        private boolean ended = false;

        WholeFile(Path path, FSDataOutputStream file) {
            super(file);
            this.path = path;
            this.file = file;
        }

        public synchronized void close() throws IOException {
            if (ended) {
                return;
            }
            ended = true;
            try {
                file.close();
            } catch (IOException error) {
                if (!refused(error)) {
                    throw error;
                }
                FileAlreadyExistsException there = new FileAlreadyExistsException(path + " is there already");
                there.initCause(error);
                throw there;
            }
        }

        public synchronized void cancel() {
            if (ended) {
                return;
            }
            ended = true;
            try {
                file.abort();
                file.close();
            } catch (Exception error) {
                // nothing has the name, and that is all that is asked for
            }
        }

        /** Whether the store has found the name taken (412); hadoop-aws' own class says so. */
        private static boolean refused(Throwable error) {
            for (Throwable one = error; one != null; one = one.getCause()) {
                if (one.getClass().getName().endsWith(".RemoteFileChangedException")) {
                    return true;
                }
            }
            return false;
        }
    }
}
